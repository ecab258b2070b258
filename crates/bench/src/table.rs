//! Tables of results: aligned text for people, CSV for everything else.

use std::fmt;
use std::io::{self, Write};

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text, aligned to the left.
    Text(String),
    /// A number, printed with three digits that count.
    Number(f64),
    /// A whole number, printed in full.
    Count(u64),
    /// The ratio of two numbers.
    Ratio(f64),
    /// Was not measured.
    Missing,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Count(number)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

impl Cell {
    /// The number in it.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) | Self::Ratio(number) => Some(*number),
            Self::Count(count) => Some(*count as f64),
            Self::Text(_) | Self::Missing => None,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => f.write_str(&three_digits(*number)),
            Self::Count(count) => f.write_str(&grouped(&count.to_string())),
            Self::Ratio(ratio) => write!(f, "{}x", three_digits(*ratio)),
            Self::Missing => f.write_str("-"),
        }
    }
}

/// A number with three digits that count: 0.00123, 0.123, 12.3, 1,230.
pub(crate) fn three_digits(number: f64) -> String {
    let size = number.abs();
    match size {
        0.0 => "0".to_owned(),
        _ if size >= 99.95 => grouped(&format!("{number:.0}")),
        _ if size >= 9.995 => format!("{number:.1}"),
        _ if size >= 0.9995 => format!("{number:.2}"),
        _ if size >= 0.09995 => format!("{number:.3}"),
        _ if size >= 0.009_995 => format!("{number:.4}"),
        _ => format!("{number:.5}"),
    }
}

/// Commas between groups of three digits.
pub(crate) fn grouped(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let mut out = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The most lines that the name of a column takes.
const HEAD_LINES: usize = 3;

/// A table of results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The title.
    pub title: String,
    /// On what and how, a paragraph each.
    pub notes: Vec<String>,
    /// Names of the columns, units last.
    pub columns: Vec<String>,
    /// As many cells as there are columns, in each row.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Adds a paragraph.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Adds a row; missing cells at its end stay empty.
    pub fn push(&mut self, mut row: Vec<Cell>) {
        row.resize(self.columns.len(), Cell::Missing);
        self.rows.push(row);
    }

    /// Adds a column with the quotient of two others.
    pub fn ratio(&mut self, name: &str, of: usize, to: usize) {
        self.columns.push(name.to_owned());
        for row in &mut self.rows {
            let quotient = match (row[of].number(), row[to].number()) {
                (Some(of), Some(to)) if to > 0.0 => Cell::Ratio(of / to),
                _ => Cell::Missing,
            };
            row.push(quotient);
        }
    }

    /// Removes columns in which nothing was measured.
    pub fn drop_empty_columns(&mut self) {
        for at in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row[at] == Cell::Missing) {
                self.columns.remove(at);
                self.rows.iter_mut().for_each(|row| {
                    row.remove(at);
                });
            }
        }
    }

    /// The numbers of a column.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<Vec<Option<f64>>> {
        let at = self.columns.iter().position(|column| column == name)?;
        Some(self.rows.iter().map(|row| row[at].number()).collect())
    }

    /// Reads what [`Table::csv`] has written: no title, no notes, each name of a column in one
    /// line.
    ///
    /// Returns nothing if rows have more cells than there are columns, or quotes do not end.
    #[must_use]
    pub fn from_csv(text: &str) -> Option<Self> {
        let mut rows = csv_rows(text)?.into_iter();
        let columns = rows.next()?;
        let is_ratio: Vec<bool> = columns
            .iter()
            .map(|name| name.contains(" / talaria") || name == "last / first")
            .collect();
        let mut table = Self { columns, ..Self::default() };
        for row in rows {
            if row.len() > table.columns.len() {
                return None;
            }
            let cells = row.into_iter().enumerate().map(|(at, text)| {
                match (text.parse::<u64>(), text.parse::<f64>()) {
                    _ if text.is_empty() => Cell::Missing,
                    (_, Ok(number)) if is_ratio[at] => Cell::Ratio(number),
                    (Ok(count), _) => Cell::Count(count),
                    (_, Ok(number)) if number.is_finite() => Cell::Number(number),
                    _ => Cell::Text(text),
                }
            });
            table.push(cells.collect());
        }
        Some(table)
    }

    /// Prints it, aligned.
    ///
    /// # Errors
    ///
    /// When `out` cannot be written.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}\n", self.title)?;
        for note in &self.notes {
            writeln!(out, "{}", wrapped(note, 100))?;
        }
        if !self.notes.is_empty() {
            writeln!(out)?;
        }
        let cells: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect();
        // A name is only as wide as it must be in a few lines, to keep columns narrow.
        let length = |text: &str| text.chars().count();
        let width = |at: usize| {
            let name = &self.columns[at];
            let words = name.split_whitespace().map(length);
            let least = words.chain(cells.iter().map(|row| length(&row[at]))).max().unwrap_or(0);
            let is_enough = |width: &usize| wrapped(name, *width).lines().count() <= HEAD_LINES;
            (least..length(name)).find(is_enough).unwrap_or_else(|| least.max(length(name)))
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let heads: Vec<String> =
            self.columns.iter().zip(&widths).map(|(name, &width)| wrapped(name, width)).collect();
        let heads: Vec<Vec<&str>> = heads.iter().map(|head| head.lines().collect()).collect();
        let is_text = |at: usize| self.rows.iter().any(|row| matches!(row[at], Cell::Text(_)));
        let mut line = |cells: &[&str]| {
            let mut text = String::new();
            for (at, cell) in cells.iter().enumerate() {
                let width = widths[at];
                text.push_str(if at > 0 { "  " } else { "" });
                let padding = " ".repeat(width - length(cell));
                let (before, behind) = if is_text(at) { ("", &*padding) } else { (&*padding, "") };
                text.extend([before, cell, behind]);
            }
            writeln!(out, "{}", text.trim_end())
        };
        let height = heads.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..height {
            // Names stand at the bottom.
            let part = |head: &Vec<&'_ str>| -> String {
                let at = (at + head.len()).checked_sub(height);
                at.and_then(|at| head.get(at)).map_or(String::new(), ToString::to_string)
            };
            let parts: Vec<String> = heads.iter().map(part).collect();
            line(&parts.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        let rules: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
        line(&rules.iter().map(String::as_str).collect::<Vec<_>>())?;
        for row in &cells {
            line(&row.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        writeln!(out)
    }

    /// Writes it as CSV (RFC 4180): names, then rows, numbers in full.
    ///
    /// # Errors
    ///
    /// When `out` cannot be written.
    pub fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let quoted = |text: &str| {
            if text.contains(['"', ',', '\n', '\r']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
        let names: Vec<String> = self.columns.iter().map(|name| quoted(name)).collect();
        write!(out, "{}\r\n", names.join(","))?;
        for row in &self.rows {
            let cells = row.iter().map(|cell| match cell {
                Cell::Text(text) => quoted(text),
                Cell::Number(number) | Cell::Ratio(number) => number.to_string(),
                Cell::Count(count) => count.to_string(),
                Cell::Missing => String::new(),
            });
            write!(out, "{}\r\n", cells.collect::<Vec<_>>().join(","))?;
        }
        Ok(())
    }
}

/// The cells of a CSV file (RFC 4180), or nothing if quotes do not end.
fn csv_rows(text: &str) -> Option<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut cell = String::new();
    let mut quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            letter => cell.push(letter),
        }
    }
    if !row.is_empty() || !cell.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    (!quoted).then_some(rows)
}

/// A paragraph in lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > width {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += len;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new("Sample", &["work", "ours s", "theirs s"]);
        table.push(vec!["a, b".into(), 0.5.into(), 71.25.into()]);
        table.push(vec!["c".into(), 1234.5.into()]);
        table.ratio("ratio", 2, 1);
        table
    }

    #[test]
    fn columns_are_aligned() {
        let mut out = Vec::new();
        sample().print(&mut out).unwrap();
        let expected = "Sample\n\n\
                      \x20      ours  theirs\n\
                      work      s       s  ratio\n\
                      ----  -----  ------  -----\n\
                      a, b  0.500    71.2   142x\n\
                      c     1,234       -      -\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn names_of_columns_take_three_lines_at_most() {
        let mut table = Table::new("T", &["", "walk by key CPU us per cert"]);
        table.push(vec!["a".into(), 1u64.into()]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let heads: Vec<&str> = out.lines().skip(2).take(3).map(str::trim).collect();
        assert_eq!(heads, ["walk by", "key CPU us", "per cert"], "{out}");
        assert!(out.lines().nth(5).unwrap().ends_with("----------"), "{out}");
    }

    #[test]
    fn csv_has_numbers_in_full_and_quotes_commas() {
        let mut out = Vec::new();
        sample().csv(&mut out).unwrap();
        let expected = "work,ours s,theirs s,ratio\r\n\"a, b\",0.5,71.25,142.5\r\nc,1234.5,,\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn csv_is_read_back() {
        let mut table = Table::new("", &["work \"x\"", "certs", "ours CPU s", "gpg / talaria CPU"]);
        table.push(vec!["a, \"b\"\nc".into(), 3u64.into(), 0.5.into(), Cell::Ratio(142.5)]);
        table.push(vec!["d".into()]);
        let mut out = Vec::new();
        table.csv(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(Table::from_csv(&text), Some(table));
        assert_eq!(Table::from_csv("a,b\r\n\"1,2\r\n"), None);
        assert_eq!(Table::from_csv("a\r\n1,2\r\n"), None);
    }
}
