//! Entries, references to trees and content references as lines of text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::order::{check_path, path_order};
use super::rules::{INLINE_BYTES_MAX, LINE_BYTES_MAX, Rule, TARGET_BYTES_MAX};
use crate::chunks::CHUNK_BYTES_MAX;
use crate::entry::{Entry, Extent, Meta, Node, Time};
use crate::id::{Id, from_hex};
use crate::text::{Place, push_escaped, unescaped};

/// The longest name of an extended attribute. Bytes.
const ATTRIBUTE_NAME_BYTES_MAX: usize = 255;
/// The longest value of an extended attribute. Bytes.
const ATTRIBUTE_BYTES_MAX: usize = 65_536;

/// Appends the line of an entry, with its end.
pub(crate) fn push_entry(out: &mut String, entry: &Entry) {
    let kind = match &entry.node {
        Node::File { .. } => 'f',
        Node::Directory(_) => 'd',
        Node::Symlink { .. } => 'l',
        Node::HardLink { .. } => 'h',
        Node::Device { block: false, .. } => 'c',
        Node::Device { block: true, .. } => 'b',
        Node::Fifo(_) => 'p',
    };
    out.push(kind);
    out.push(' ');
    match entry.node.meta() {
        Some(meta) => push_meta(out, meta),
        None => out.push_str("- - - -"),
    }
    out.push(' ');
    match &entry.node {
        Node::File { size, .. } => push_decimal(out, *size),
        _ => out.push('-'),
    }
    out.push(' ');
    match &entry.node {
        Node::File { content, .. } if !content.is_empty() => {
            for (at, part) in content.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                push_part(out, part);
            }
        }
        Node::Symlink { target, .. } => push_escaped(out, target, Place::Inner),
        Node::HardLink { first } => push_escaped(out, first, Place::Inner),
        Node::Device { major, minor, .. } => {
            push_decimal(out, u64::from(*major));
            out.push(':');
            push_decimal(out, u64::from(*minor));
        }
        _ => out.push('-'),
    }
    out.push(' ');
    match entry.node.meta() {
        Some(meta) if !meta.attributes.is_empty() => {
            for (at, (name, value)) in meta.attributes.iter().enumerate() {
                if at > 0 {
                    out.push(';');
                }
                push_escaped(out, name, Place::Inner);
                out.push('=');
                STANDARD.encode_string(value, out);
            }
        }
        _ => out.push('-'),
    }
    out.push(' ');
    push_escaped(out, &entry.path, Place::Last);
    out.push('\n');
}

fn push_meta(out: &mut String, meta: &Meta) {
    for shift in [9, 6, 3, 0] {
        out.push(char::from(b'0' + u8::try_from(meta.mode >> shift & 7).expect("below 8")));
    }
    out.push(' ');
    push_decimal(out, u64::from(meta.uid));
    out.push(' ');
    push_decimal(out, u64::from(meta.gid));
    out.push(' ');
    if meta.mtime.seconds < 0 {
        out.push('-');
    }
    push_decimal(out, meta.mtime.seconds.unsigned_abs());
    out.push('.');
    push_digits(out, u64::from(meta.mtime.nanoseconds), 9);
}

fn push_decimal(out: &mut String, number: u64) {
    push_digits(out, number, 1);
}

/// Appends a number with at least `width` digits.
fn push_digits(out: &mut String, mut number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while number > 0 {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).expect("below 10");
        number /= 10;
    }
    let at = at.min(digits.len() - width);
    out.push_str(std::str::from_utf8(&digits[at..]).expect("digits"));
}

/// Appends a content reference, without the end of a line.
pub(crate) fn push_part(out: &mut String, part: &Extent) {
    match part {
        Extent::Inline(content) => {
            out.push('=');
            STANDARD.encode_string(content, out);
        }
        Extent::Data { id, offset, length } => {
            push_id(out, id);
            out.push(':');
            push_decimal(out, *offset);
            out.push(':');
            push_decimal(out, *length);
        }
        Extent::Hole(length) => {
            out.push_str("hole:");
            push_decimal(out, *length);
        }
        Extent::List { id, length } => {
            out.push('*');
            push_id(out, id);
            out.push(':');
            push_decimal(out, *length);
        }
    }
}

fn push_id(out: &mut String, id: &Id) {
    out.push_str(&crate::id::to_hex(&id.0));
}

/// Appends the line of a reference to a tree, with its end.
pub(crate) fn push_child(out: &mut String, id: &Id, first: &[u8]) {
    push_id(out, id);
    out.push(' ');
    push_escaped(out, first, Place::Last);
    out.push('\n');
}

/// Reads the line of a reference to a tree, without its end.
pub(crate) fn parse_child(line: &str) -> Result<(Id, Vec<u8>), Rule> {
    let (id, first) = line.split_once(' ').ok_or("a reference to a tree has two fields")?;
    let id = Id(from_hex(id).ok_or("an identifier has 64 lower-case hexadecimal digits")?);
    let first = unescaped(first, Place::Last).ok_or(PATH_FORM)?;
    check_path(&first)?;
    Ok((id, first))
}

const PATH_FORM: Rule = "the path is not in its only form";

/// The number of fields of an entry.
const FIELDS: usize = 9;

/// The path field of an entry, as it stands there.
pub(crate) fn path_field(line: &str) -> Option<&str> {
    line.splitn(FIELDS, ' ').nth(FIELDS - 1)
}

/// Reads the line of an entry, without its end.
pub(crate) fn parse_entry(line: &str) -> Result<Entry, Rule> {
    let mut fields = line.splitn(FIELDS, ' ');
    let mut field = || fields.next().ok_or("an entry has nine fields");
    let kind = field()?;
    let meta = [field()?, field()?, field()?, field()?];
    let (size, content, attributes, path) = (field()?, field()?, field()?, field()?);
    let path = unescaped(path, Place::Last).ok_or(PATH_FORM)?;
    if kind != "f" && size != "-" {
        return Err("only a file has a size");
    }
    let no_content = |node| {
        if content == "-" { Ok(node) } else { Err("a directory or FIFO has no content") }
    };
    let node = match kind {
        "f" => Node::File {
            meta: parse_meta(meta, attributes)?,
            size: decimal(size).ok_or("the size is not a decimal number")?,
            content: match content {
                "-" => Vec::new(),
                parts => parts.split(',').map(parse_part).collect::<Result<_, _>>()?,
            },
        },
        "d" => no_content(Node::Directory(parse_meta(meta, attributes)?))?,
        "p" => no_content(Node::Fifo(parse_meta(meta, attributes)?))?,
        "l" => Node::Symlink {
            meta: parse_meta(meta, attributes)?,
            target: unescaped(content, Place::Inner)
                .ok_or("the target of a symbolic link is not in its only form")?,
        },
        "h" => {
            if meta != ["-"; 4] || attributes != "-" {
                return Err("a further hard link has no mode, owner, time or attributes");
            }
            let form = "the path of the first link is not in its only form";
            Node::HardLink { first: unescaped(content, Place::Inner).ok_or(form)? }
        }
        "c" | "b" => {
            let numbers = content.split_once(':');
            let numbers = numbers.and_then(|(a, b)| Some((decimal(a)?, decimal(b)?)));
            let (major, minor) = numbers.ok_or("a device has two decimal numbers")?;
            let meta = parse_meta(meta, attributes)?;
            Node::Device { meta, block: kind == "b", major, minor }
        }
        _ => return Err("the kind of an entry is not known"),
    };
    let entry = Entry { path, node };
    check_entry(&entry)?;
    Ok(entry)
}

fn parse_meta(fields: [&str; 4], attributes: &str) -> Result<Meta, Rule> {
    let [mode, uid, gid, mtime] = fields;
    let octal = mode.len() == 4 && mode.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    if !octal {
        return Err("the mode is not four octal digits");
    }
    let mode = mode.bytes().fold(0, |mode, digit| mode << 3 | u16::from(digit - b'0'));
    let owner = "the owner is not a decimal number of 32 bits";
    let (uid, gid) = (decimal(uid).ok_or(owner)?, decimal(gid).ok_or(owner)?);
    let mtime = parse_time(mtime).ok_or("the time is not seconds and nine digits")?;
    let mut parsed = Vec::new();
    if attributes != "-" {
        for attribute in attributes.split(';') {
            let form = "an attribute is not a name and base64";
            let (name, value) = attribute.split_once('=').ok_or(form)?;
            let name = unescaped(name, Place::Inner).ok_or(form)?;
            parsed.push((name, STANDARD.decode(value).map_err(|_| form)?));
        }
    }
    Ok(Meta { mode, uid, gid, mtime, attributes: parsed })
}

fn parse_time(text: &str) -> Option<Time> {
    let (seconds, nanoseconds) = text.split_once('.')?;
    let digits = seconds.strip_prefix('-');
    if !is_decimal(digits.unwrap_or(seconds)) || digits == Some("0") {
        return None;
    }
    if nanoseconds.len() != 9 || !nanoseconds.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(Time { seconds: seconds.parse().ok()?, nanoseconds: nanoseconds.parse().ok()? })
}

/// Whether a text is a decimal number in its only form.
fn is_decimal(text: &str) -> bool {
    text == "0"
        || !text.starts_with('0') && !text.is_empty() && text.bytes().all(|d| d.is_ascii_digit())
}

fn decimal<N: std::str::FromStr>(text: &str) -> Option<N> {
    if is_decimal(text) { text.parse().ok() } else { None }
}

/// Reads a content reference.
pub(crate) fn parse_part(text: &str) -> Result<Extent, Rule> {
    let form = "a content reference is not in a form that the format knows";
    let part = if let Some(content) = text.strip_prefix('=') {
        Extent::Inline(STANDARD.decode(content).map_err(|_| form)?)
    } else if let Some(length) = text.strip_prefix("hole:") {
        Extent::Hole(decimal(length).ok_or(form)?)
    } else if let Some(list) = text.strip_prefix('*') {
        let (id, length) = list.split_once(':').ok_or(form)?;
        Extent::List { id: Id(from_hex(id).ok_or(form)?), length: decimal(length).ok_or(form)? }
    } else {
        let (id, range) = text.split_once(':').ok_or(form)?;
        let (offset, length) = range.split_once(':').ok_or(form)?;
        let (offset, length) = (decimal(offset).ok_or(form)?, decimal(length).ok_or(form)?);
        Extent::Data { id: Id(from_hex(id).ok_or(form)?), offset, length }
    };
    check_part(&part)?;
    Ok(part)
}

/// Checks the rules for a content reference.
pub(crate) fn check_part(part: &Extent) -> Result<(), Rule> {
    match part {
        _ if part.length() == 0 => Err("a content reference stands for no byte"),
        Extent::Inline(content) if content.len() > INLINE_BYTES_MAX => {
            Err("a content reference holds more than 512 bytes itself")
        }
        Extent::Data { offset, length, .. }
            if offset.checked_add(*length).is_none_or(|end| end > CHUNK_BYTES_MAX as u64) =>
        {
            Err("a content reference ends after 8 MiB of its chunk")
        }
        _ => Ok(()),
    }
}

/// Checks the rules for an entry that need no other entry.
pub(crate) fn check_entry(entry: &Entry) -> Result<(), Rule> {
    check_path(&entry.path)?;
    if let Some(meta) = entry.node.meta() {
        check_meta(meta)?;
    }
    match &entry.node {
        Node::File { size, content, .. } => {
            let mut sum = 0_u64;
            for part in content {
                check_part(part)?;
                sum = sum.checked_add(part.length()).ok_or("the size has more than 64 bits")?;
            }
            if sum != *size {
                return Err("the lengths of the content do not sum to the size");
            }
            if *size > i64::MAX.unsigned_abs() {
                return Err("the size has more than 63 bits");
            }
        }
        Node::Symlink { target, .. } => {
            if target.is_empty() || target.len() > TARGET_BYTES_MAX || target.contains(&0) {
                return Err("the target of a symbolic link is empty, too long or contains NUL");
            }
        }
        Node::HardLink { first } => {
            check_path(first)?;
            if path_order(first, &entry.path).is_ge() {
                return Err("a further hard link is not after its first");
            }
        }
        Node::Directory(_) | Node::Device { .. } | Node::Fifo(_) => {}
    }
    Ok(())
}

fn check_meta(meta: &Meta) -> Result<(), Rule> {
    if meta.mode > 0o7777 {
        return Err("the mode has more than 12 bits");
    }
    if meta.mtime.nanoseconds >= 1_000_000_000 {
        return Err("the time has a billion nanoseconds or more");
    }
    for (name, value) in &meta.attributes {
        if name.is_empty() || name.len() > ATTRIBUTE_NAME_BYTES_MAX || name.contains(&0) {
            return Err("the name of an attribute is empty, too long or contains NUL");
        }
        if value.len() > ATTRIBUTE_BYTES_MAX {
            return Err("an attribute has more than 65,536 bytes");
        }
    }
    if !meta.attributes.is_sorted_by(|(a, _), (b, _)| a < b) {
        return Err("the attributes do not ascend by name");
    }
    Ok(())
}

/// Checks the length of the line of an entry.
pub(crate) fn check_line(line: &str) -> Result<(), Rule> {
    if line.len() > LINE_BYTES_MAX { Err("the line has more than 4 MiB") } else { Ok(()) }
}
