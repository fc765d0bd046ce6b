"""The pages that a browser gets without the token: a form that asks for it, and a redirect.

They need neither scripts nor the files of the page itself, which also require the token.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from urllib.parse import urlencode

from starlette.responses import HTMLResponse, Response

FORM_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"
"""The content security policy of these pages."""
_WRONG = '<p class="wrong" role="alert">This token is wrong.</p>'
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 14vh auto; max-width: 30em; padding: 0 1em; }
h1 { font-size: 1.3em; }
form { display: flex; gap: .5em; }
input { flex: 1; font: inherit; padding: .4em .6em; }
button { font: inherit; padding: .4em 1.2em; }
code { font-size: .95em; }
.wrong { color: light-dark(#b3261e, #ff8a80); }
"""


def token_form(query: Iterable[tuple[str, str]], *, is_wrong: bool) -> Response:
    """A form for the token (401). ``query``: the other parameters of the address, which are kept;
    ``is_wrong``: a wrong token was given."""
    hidden = "".join(
        f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
        for name, value in query
    )
    body = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Sonde: token needed</title>
<style>{_STYLE}</style>
<h1>This Sonde server needs its token</h1>
{_WRONG if is_wrong else ""}
<form method="get">{hidden}
<input name="token" type="password" aria-label="Token" autocomplete="off" required autofocus>
<button>Open</button></form>
<p>The token is part of the address that the server printed when it started. On its machine
<code>sonde ctl address</code> prints that address again.</p>
</html>
"""
    return _page(body, 401)


def onward(path: str, query: Iterable[tuple[str, str]]) -> Response:
    """A page that leads to ``path`` at once.

    A redirect by status would not do: a browser that came from another site, or from a file, does
    not send a ``SameSite=Strict`` cookie along such a redirect. This page is of this server, and
    what it leads to gets the cookie. It replaces the address with the token in the history.
    """
    rest = urlencode(list(query))
    target = html.escape(f"{path}?{rest}" if rest else path)
    body = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Sonde</title>'
        f'<meta http-equiv="refresh" content="0; url={target}">'
        f'<a href="{target}">Open the page</a></html>\n'
    )
    return _page(body, 200)


def _page(body: str, status: int) -> Response:
    headers = {"content-security-policy": FORM_POLICY, "cache-control": "no-store"}
    return HTMLResponse(body, status, headers)
