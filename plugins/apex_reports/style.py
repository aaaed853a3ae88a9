"""Colours and layout of the page and of its figures. Text has a contrast of at least 4.5 in light, dark and print."""

from __future__ import annotations

LIGHT = {
    "paper": "#ffffff",
    "panel": "#f5f6f8",
    "ink": "#17202b",
    "soft": "#4d5967",
    "rule": "#d4d9e0",
    "link": "#0b57a4",
    "good": "#0f6b3c",
    "bad": "#a8221b",
    "wait": "#7a4d00",
    "c0": "#0b62a8",
    "c1": "#b3480b",
    "c2": "#0b7a5c",
    "c3": "#8c3a8a",
    "c4": "#7a6200",
    "c5": "#b0264d",
    "c6": "#4856b8",
    "c7": "#55616e",
}
"""Name -> colour on a white page."""

DARK = {
    "paper": "#10151c",
    "panel": "#1a212b",
    "ink": "#e8ecf1",
    "soft": "#a9b4c2",
    "rule": "#36414f",
    "link": "#7cb8f5",
    "good": "#5fd08f",
    "bad": "#ff8f85",
    "wait": "#f0b95a",
    "c0": "#6cb4f2",
    "c1": "#f59b62",
    "c2": "#54cfa8",
    "c3": "#dd96da",
    "c4": "#d9bf4e",
    "c5": "#f58aa6",
    "c6": "#a3aefa",
    "c7": "#b3bfcc",
}
"""The same on a dark one."""


def _values(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


_DRAWING = (
    "svg text{fill:var(--ink);font:11px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    "svg .soft{fill:var(--soft)}svg .strong{font-weight:600}svg .tiny{font-size:9.5px}svg .bad{fill:var(--bad)}"
    "svg .rule{stroke:var(--rule);fill:none}svg .axis{stroke:var(--soft);fill:none}"
    "svg .zero{stroke:var(--ink);stroke-width:1.2;fill:none}svg .cap{stroke:var(--bad);stroke-dasharray:5 3;fill:none}"
    "svg .lane{stroke:var(--rule);fill:none}svg .back{fill:var(--panel)}svg .open{fill:var(--paper);stroke:var(--soft)}"
    "svg .work{fill:var(--ink)}svg .sent{stroke:var(--soft);fill:none}svg .relay{stroke:var(--soft);stroke-dasharray:3 2.5;fill:none}"
    "svg .head{fill:var(--soft)}svg .dead{stroke:var(--bad);stroke-width:1.8;fill:none}svg .stop{fill:var(--bad)}"
    "svg .chosen{fill:var(--ink)}svg .stay{fill:var(--paper);stroke:var(--soft)}svg .cut{stroke:var(--ink);stroke-width:1.2;fill:none}"
    "svg .inverse{fill:var(--paper)}svg .won{fill:var(--good)}svg .lost{fill:var(--bad)}svg .heat{fill:var(--c0)}"
    + "".join(
        f"svg .c{i}{{stroke:var(--c{i});fill:none;stroke-width:2}}svg .f{i}{{fill:var(--c{i})}}"
        f"svg .b{i}{{fill:var(--c{i});fill-opacity:.13}}svg text.f{i}{{fill:var(--c{i})}}"
        for i in range(8)
    )
    + "svg .dashed{stroke-dasharray:7 3}svg .dotted{stroke-dasharray:2 3}"
)

SVG_STYLE = (
    f"svg{{{_values(LIGHT)}background:var(--paper)}}"
    f"@media (prefers-color-scheme:dark){{svg{{{_values(DARK)}}}}}{_DRAWING}"
)
"""Style of a figure that is a file of its own."""

PAGE_STYLE = (
    f":root{{color-scheme:light dark;{_values(LIGHT)}}}"
    f"@media (prefers-color-scheme:dark){{:root{{{_values(DARK)}}}}}"
    f"{_DRAWING}"
    """
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;overflow-wrap:anywhere}
header,main,footer{max-width:68rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2.2rem}
h1{font-size:1.05rem;font-weight:600;color:var(--soft);margin:0}
h2{font-size:1.35rem;line-height:1.25;margin:3rem 0 .6rem;padding-top:1rem;border-top:1px solid var(--rule)}
h3{font-size:1.02rem;margin:1.6rem 0 .4rem}
p,ul,ol,dl{margin:.5rem 0;max-width:46rem}
ul,ol{padding-left:1.3rem}
a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-99rem}
.skip:focus{position:static}
.verdict{border-left:.45rem solid var(--wait);background:var(--panel);padding:1rem 1.25rem;margin:1rem 0;border-radius:0 .4rem .4rem 0}
.verdict.better{border-color:var(--good)}.verdict.worse{border-color:var(--bad)}.verdict.none{border-color:var(--soft)}
.verdict p{margin:.3rem 0;max-width:none}
.word{font-size:1.9rem;font-weight:700;letter-spacing:.01em;line-height:1.2;color:var(--wait)}
.better .word{color:var(--good)}.worse .word{color:var(--bad)}.none .word{color:var(--ink)}
.interval{font-size:1.15rem;font-variant-numeric:tabular-nums}
.level{color:var(--soft)}
.warn{border-left:.45rem solid var(--bad);background:var(--panel);padding:.6rem 1.25rem;margin:1rem 0}
nav ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;max-width:none;font-size:.92rem}
.scroll{overflow-x:auto;margin:.8rem 0;border-radius:.3rem}
table{border-collapse:collapse;font-size:.87rem;line-height:1.4;font-variant-numeric:tabular-nums;overflow-wrap:normal}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{padding:.28rem 1.15rem .28rem 0;text-align:right;vertical-align:top;border-bottom:1px solid var(--rule);white-space:nowrap}
th:first-child,td:first-child{text-align:left}
td.text,th.text{text-align:left}
td.words,th.words{text-align:left;white-space:normal;min-width:12rem;overflow-wrap:anywhere}
thead th{color:var(--soft);font-weight:600;vertical-align:bottom}
tbody th{font-weight:500}
tbody th.words{max-width:22rem}
.away{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.notes{font-size:.85rem;color:var(--soft)}
.notes p{margin:.15rem 0}
figure{margin:1rem 0}
figcaption{font-weight:600;font-size:.95rem}
svg.figure{display:block;max-width:none;height:auto}
.fit svg.figure{max-width:100%;min-width:52rem}
details{margin:.5rem 0}
summary{cursor:pointer;padding:.25rem 0}
.episode{border:1px solid var(--rule);border-radius:.4rem;padding:.2rem .9rem;margin:.6rem 0}
.episode>summary{font-weight:600}
.numbers>summary{font-size:.87rem;color:var(--soft)}
pre{background:var(--panel);padding:.8rem 1rem;overflow-x:auto;border-radius:.3rem;font-size:.87rem;white-space:pre-wrap}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}
.holds,.fails,.open{text-align:left}.holds{color:var(--good);font-weight:600}.fails{color:var(--bad);font-weight:600}.open{color:var(--wait);font-weight:600}
footer{padding-top:2rem;padding-bottom:3rem;color:var(--soft);font-size:.87rem}
@media (max-width:40rem){body{font-size:15px}header,main,footer{padding:0 .9rem}header{padding-top:1.2rem}h2{font-size:1.2rem;margin-top:2.2rem}.word{font-size:1.5rem}.verdict{padding:.8rem .9rem}}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
"""
    f"@media print{{:root{{color-scheme:light;{_values(LIGHT)}}}"
    """body{font-size:10pt}header,main,footer{max-width:none;padding:0}nav,.skip{display:none}
h2,h3,caption,figcaption,summary{break-after:avoid}.scroll:not(:has(tr:nth-child(16))){break-inside:avoid}figure,.verdict,tr{break-inside:avoid}.scroll{overflow:visible}
svg.figure,.fit svg.figure{max-width:100%;min-width:0}table{font-size:7.5pt}th,td{padding-right:.6rem;white-space:normal}
.episode{border:0;padding:0}details::details-content{content-visibility:visible;block-size:auto;opacity:1}
.numbers{display:none}}
"""
)
"""Style of the page; the only thing on it that its content policy lets through."""
