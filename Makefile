# Short names for tox environments; nothing is defined here.
.PHONY: setup lint format typecheck test

setup:
	tox devenv -e py311-all .venv

lint:
	tox -e lint

format:
	tox -e format

typecheck:
	tox -e types

test:
	tox -e py311-all
