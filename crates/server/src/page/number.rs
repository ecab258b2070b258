//! Numbers, as pages show them.

/// A number in groups of three digits.
pub(crate) fn grouped(number: u64, separator: char) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(separator);
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let text = |n| grouped(n, ',');
        assert_eq!([text(0), text(999), text(1000)], ["0", "999", "1,000"]);
        assert_eq!(text(12_345_678), "12,345,678");
    }
}
