//! A picture of the time when each part of a certificate was valid.
//!
//! Places are given in percent of the width, so the picture is as wide as there is room while its
//! letters keep their size. What it shows stands in words beside it as well.

use maud::{Markup, html};
use talaria_cert::Validity;

use super::texts::Texts;
use crate::clock::day_text;
use talaria::parse_day;

/// Tracks of a picture; more are left out.
const TRACKS_MAX: usize = 24;

/// Height of a track and of the axis.
const TRACK: usize = 40;
const AXIS: usize = 26;

/// The end of a part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    Open,
    Expires(u32),
    Revoked(u32),
}

/// A key or user ID.
#[derive(Clone, Debug)]
pub(crate) struct Track {
    pub(crate) label: String,
    pub(crate) validity: Validity,
    pub(crate) from: u32,
    pub(crate) end: End,
}

/// From times to percent of the width.
#[derive(Clone, Copy, Debug)]
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    /// From the first creation to the last end, but no further into the future than there is past,
    /// or five years.
    fn new(tracks: &[Track], now: u32) -> Self {
        let first = tracks.iter().map(|track| track.from).min().unwrap_or(now).min(now);
        let past = now - first;
        let furthest = now.saturating_add(past.max(5 * YEAR));
        let last = tracks.iter().map(|track| match track.end {
            End::Expires(time) | End::Revoked(time) => time.min(furthest),
            End::Open => now,
        });
        // A young certificate gets the next years on its axis, too.
        let last = last.max().unwrap_or(now).max(now).max(first.saturating_add(3 * YEAR));
        let margin = f64::from((last - first).max(YEAR)) * 0.04;
        Self { from: f64::from(first) - margin, to: f64::from(last) + 2.0 * margin }
    }

    fn place(self, time: u32) -> f64 {
        (100.0 * (f64::from(time) - self.from) / (self.to - self.from)).clamp(0.0, 100.0)
    }

    /// The starts of years, at most six of them, evenly spaced.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "years are few")]
    fn years(self) -> Vec<(u32, u32)> {
        let year = |time: f64| 1970 + (time.max(0.0) / f64::from(YEAR)) as u32;
        let (first, last) = (year(self.from), year(self.to) + 1);
        let step = [1, 2, 5, 10, 20, 50].into_iter().find(|step| (last - first) / step <= 6);
        let step = step.unwrap_or(100);
        (first..=last)
            .filter(|year| year % step == 0)
            .filter_map(|year| {
                Some((year, parse_day(&format!("{year}-01-01"))?.checked_mul(86400)?))
            })
            .filter(|&(_, time)| (self.from..self.to).contains(&f64::from(time)))
            .collect()
    }
}

/// Seconds of a year, about.
const YEAR: u32 = 31_556_952;

/// Characters of a label.
pub(crate) const LABEL_CHARACTERS: usize = 26;

/// The picture.
pub(crate) fn draw(texts: &Texts, tracks: &[Track], now: u32) -> Markup {
    let shown = &tracks[..tracks.len().min(TRACKS_MAX)];
    let axis = Axis::new(shown, now);
    let height = AXIS + TRACK * shown.len();
    let percent = |time| format!("{:.2}%", axis.place(time));
    html! {
        svg.timeline width="100%" height=(height) role="img" aria-label=(texts.timeline_title) {
            @for (year, time) in axis.years() {
                line.grid x1=(percent(time)) x2=(percent(time)) y1=(AXIS - 6) y2=(height) {}
                // At the edges there is no room for it.
                @if (5.0..95.0).contains(&axis.place(time)) {
                    text.tick x=(percent(time)) y="14" text-anchor="middle" { (year) }
                }
            }
            @for (at, track) in shown.iter().enumerate() {
                (bar(texts, track, axis, AXIS + at * TRACK))
            }
            line.now x1=(percent(now)) x2=(percent(now)) y1=(AXIS - 6) y2=(height) {
                title { (texts.now) " " (day_text(now / 86400)) }
            }
            @for (at, track) in shown.iter().enumerate() {
                (name(texts, track, AXIS + at * TRACK))
            }
        }
        p.legend {
            span.key-now aria-hidden="true" {} " " (texts.now) " (" (day_text(now / 86400)) ") · "
            span aria-hidden="true" { "▏" } " " (texts.expires) " · "
            span aria-hidden="true" { "✕" } " " (texts.revoked)
            @if tracks.len() > TRACKS_MAX {
                " · " ((texts.more)((tracks.len() - TRACKS_MAX) as u64))
            }
        }
    }
}

/// The name and the state of a part, above its bar.
fn name(texts: &Texts, track: &Track, y: usize) -> Markup {
    html! {
        text.label x="0" y=(y + 14) { (track.label) }
        text.label.figure.ended[track.validity == Validity::Revoked] x="100%" y=(y + 14)
            text-anchor="end" {
            (texts.validity(track.validity))
        }
    }
}

fn bar(texts: &Texts, track: &Track, axis: Axis, y: usize) -> Markup {
    let from = axis.place(track.from);
    let (to, end) = match track.end {
        End::Open => (100.0, None),
        End::Expires(time) | End::Revoked(time) => (axis.place(time), Some(time)),
    };
    let class = match track.validity {
        Validity::Valid => "valid",
        Validity::Expired => "expired",
        Validity::Revoked => "revoked",
        Validity::Invalid => "invalid",
    };
    let width = format!("{:.2}%", (to - from).max(0.5));
    let said = match end {
        None => format!("{} – …", day_text(track.from / 86400)),
        Some(end) => format!("{} – {}", day_text(track.from / 86400), day_text(end / 86400)),
    };
    html! {
        g.track {
            title { (track.label) ": " (texts.validity(track.validity)) ", " (said) }
            rect.rail x="0" y=(y + 22) width="100%" height="8" rx="4" {}
            rect class={ "bar " (class) } x=(format!("{from:.2}%")) y=(y + 20) width=(width)
                height="12" rx="3" {}
            @if matches!(track.end, End::Expires(_)) && to < 100.0 {
                rect.cap x=(format!("{to:.2}%")) y=(y + 17) width="3" height="18" {}
            }
            @if matches!(track.end, End::Revoked(_)) {
                text.cross x=(format!("{to:.2}%")) y=(y + 33) text-anchor="middle" { "✕" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(from: u32, end: End) -> Track {
        Track { label: "key".into(), validity: Validity::Valid, from, end }
    }

    #[test]
    fn the_axis_spans_the_first_to_the_last_event() {
        let now = 1_800_000_000;
        let tracks = [track(now - 10 * YEAR, End::Expires(now + 2 * YEAR)), track(now, End::Open)];
        let axis = Axis::new(&tracks, now);
        assert!(axis.place(now - 10 * YEAR) > 2.0 && axis.place(now + 2 * YEAR) < 96.0);
        assert!(axis.place(now - 10 * YEAR) < axis.place(now));
        assert!((2..=7).contains(&axis.years().len()));
        // A key that expires in a hundred years still leaves space for today.
        let axis = Axis::new(&[track(now - YEAR, End::Expires(u32::MAX))], now);
        assert!(axis.place(now) > 15.0);
        // A creation time in the future does no harm.
        let _ = Axis::new(&[track(u32::MAX, End::Expires(0))], now).years();
    }
}
