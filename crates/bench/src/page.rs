//! HTML pages that need no other file: style and pictures are in them, for light and dark screens.

use crate::plot::escaped;

const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--text:#1f2328;--soft:#59636e;--line:#d1d9e0;\
--shade:#f6f8fa;--accent:#0072b2}\
@media(prefers-color-scheme:dark){:root{--ground:#0d1117;--text:#e6edf3;--soft:#9198a1;\
--line:#2b323b;--shade:#161b22;--accent:#4ea8e6}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--ground);color:var(--text);\
font:16px/1.5 system-ui,-apple-system,'Segoe UI','Noto Sans',Arial,sans-serif}\
main{max-width:1016px;margin:0 auto;padding:28px}\
h1{font-size:30px;margin:8px 0}h2{font-size:22px;margin:0 0 12px}\
section{margin:52px 0;border-top:1px solid var(--line);padding-top:28px}\
a{color:var(--accent)}nav{columns:2;column-gap:40px}nav a{display:block;padding:2px 0}\
p{margin:8px 0;max-width:80ch}.soft{color:var(--soft);font-size:14px}\
code{font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:.92em}\
figure{margin:20px 0;overflow-x:auto}svg{max-width:100%;height:auto}\
@media(max-width:700px){main{padding:28px 16px}nav{columns:1}main:has(nav) section figure svg{min-width:640px}}\
.table{overflow-x:auto;border:1px solid var(--line);border-radius:8px;margin:16px 0}\
table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums;width:100%}\
th,td{padding:6px 12px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}\
th{white-space:normal;vertical-align:bottom;background:var(--shade);font-weight:600}\
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--ground)}\
th:first-child{background:var(--shade)}tr:last-child td{border-bottom:0}\
td.text{text-align:left}\
.pair{display:grid;grid-template-columns:minmax(0,620px) minmax(250px,1fr);gap:24px;align-items:start}\
.pair figure,.pair .table{margin:8px 0}.pair .table{max-height:360px;overflow-y:auto}\
.pair th{position:sticky;top:0}@media(max-width:900px){.pair{grid-template-columns:minmax(0,1fr)}}\
td.times{font-weight:600}\
@media(max-width:640px){nav{columns:1}main{padding:16px}}";

/// A page with this title and content, which is HTML.
#[must_use]
pub fn page(title: &str, content: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<main>\n{content}</main>\n</html>\n"
    )
}
