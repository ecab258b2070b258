//! Key IDs as GnuPG writes them in texts.

/// How key IDs are written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum KeyidFormat {
    /// Fingerprints in listings; elsewhere as [`Self::Long`].
    #[default]
    None,
    Short,
    Long,
    ShortHex,
    LongHex,
}

impl KeyidFormat {
    /// The format with a name, in any case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "none" => Self::None,
            "short" => Self::Short,
            "long" => Self::Long,
            "0xshort" => Self::ShortHex,
            "0xlong" => Self::LongHex,
            _ => return None,
        })
    }

    /// A key ID.
    pub(crate) fn write(self, id: u64) -> String {
        let short = id & 0xffff_ffff;
        match self {
            Self::None | Self::Long => format!("{id:016X}"),
            Self::Short => format!("{short:08X}"),
            Self::ShortHex => format!("0x{short:08X}"),
            Self::LongHex => format!("0x{id:016X}"),
        }
    }
}
