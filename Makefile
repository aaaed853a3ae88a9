# Short names for tox environments, and `make env=dev|staging|prod`: what is in force there. Nothing is defined here.
.PHONY: setup lint format typecheck test settings

ifdef env
.DEFAULT_GOAL := settings
endif

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

settings:
	@test -f "examples/serving/env/$(env).env" || { echo 'make env=dev, env=staging or env=prod, not env=$(env)' >&2; exit 2; }
	@set -a && . "./examples/serving/env/$(env).env" && apex config show
