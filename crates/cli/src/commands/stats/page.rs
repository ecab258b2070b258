//! Statistics of a store as one HTML page: the drawings, and beside them all numbers, which a
//! picture has no room for.

use std::fmt::Write as _;

use talaria::{Statistics, day};
use talaria_bench::page;
use talaria_bench::plot::{Picture, escaped};

use super::picture::{Section, bytes, grouped, sections};

/// The width of a drawing in pixels.
const DRAWING_PX: f64 = 620.0;

/// The page on the stores `names` at `now` (seconds since 1970).
pub(super) fn draw(names: &[String], counts: &Statistics, now: u32) -> String {
    let title = format!("Statistics of {}", names.join(", "));
    let mut content = format!(
        "<h1>{}</h1>\n<p>{}, by <code>talaria stats --html</code></p>\n",
        escaped(&title),
        day(now)
    );
    let totals = [
        ("certificates", grouped(counts.certificates)),
        ("user IDs", grouped(counts.user_ids)),
        ("user attributes", grouped(counts.attributes)),
        ("subkeys", grouped(counts.subkeys)),
        ("signatures", grouped(counts.signatures)),
        ("size of the certificates", bytes(counts.bytes)),
        ("size on disk", bytes(counts.bytes_on_disk)),
    ];
    content.push_str("<div class=\"table\"><table>\n");
    for (name, total) in totals {
        let _ = writeln!(content, "<tr><td>{name}</td><td>{total}</td></tr>");
    }
    content.push_str("</table></div>\n");
    for section in sections(counts) {
        write_section(&mut content, section);
    }
    page(&title, &content)
}

fn write_section(out: &mut String, section: Section) {
    let Section { panel, of, rows } = section;
    let title = panel.title.clone();
    let picture = Picture {
        title: String::new(),
        subtitle: Vec::new(),
        // The heading of the section has the title.
        panels: vec![panel.titled("", "")],
        columns: 1,
        foot: String::new(),
    };
    let _ = writeln!(
        out,
        "<section>\n<h2>{title}</h2>\n<div class=\"pair\">\n<figure aria-label=\"{title}\">{}</figure>\n\
         <div class=\"table\"><table>\n<tr><th>{of}</th><th>number</th><th>share</th></tr>",
        picture.svg_of_width(DRAWING_PX)
    );
    let all: u64 = rows.iter().map(|(_, count)| count).sum();
    for (name, count) in rows {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&name),
            grouped(count),
            share(count, all)
        );
    }
    out.push_str("</table></div>\n</div>\n</section>\n");
}

/// A share in percent with one decimal.
fn share(count: u64, all: u64) -> String {
    let tenths = (u128::from(count) * 1000 + u128::from(all) / 2) / u128::from(all.max(1));
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_page_has_every_number_and_needs_no_other_file() {
        let counts = Statistics {
            certificates: 12_345,
            by_algorithm: (1..=12).map(|n| (format!("rsa<{n}"), n)).collect(),
            by_validity: BTreeMap::from([("valid", 12_000), ("revoked", 345)]),
            by_year: BTreeMap::from([(1970, 1), (2001, 9), (2106, 1)]),
            ..Statistics::default()
        };
        let html = draw(&["a<b.db".to_owned()], &counts, 1_795_223_179);
        assert!(html.starts_with("<!DOCTYPE html>"));
        assert!(html.contains("Statistics of a&lt;b.db") && html.contains("2026-11-21"));
        // Rare values and far years are rows, too.
        for n in 1..=12 {
            assert!(html.contains(&format!("<td>rsa&lt;{n}</td><td>{n}</td>")), "{n}");
        }
        assert!(html.contains("<td>1970</td><td>1</td><td>9.1 %</td>"), "{html}");
        assert!(html.contains("<td>valid</td><td>12,000</td><td>97.2 %</td>"));
        for link in ["src=", "href=", "url(", "@import", "<script"] {
            assert!(!html.contains(link), "{link}");
        }
        assert_eq!(share(0, 0), "0.0 %");
    }
}
