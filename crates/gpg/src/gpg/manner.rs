//! What gpg does besides what gpgv does: it says whether a key belongs to whom it names, and goes on
//! after a bad signature.

use crate::gpg::trust::Trust;

/// What gpg does besides.
pub(crate) struct Manner {
    /// The validity of keys.
    pub(crate) trust: Trust,
    /// What the user wants to see.
    pub(crate) shown: Shown,
    /// The fingerprint is always written.
    pub(crate) with_fingerprint: bool,
    /// Signatures are verified, and nothing else is done with messages.
    pub(crate) is_verifying: bool,
    /// There is nobody to read texts: the program ends at the first bad signature, and takes no
    /// file that was not named.
    pub(crate) is_batch: bool,
    /// Status lines tell how much was read.
    pub(crate) has_progress: bool,
}

/// What the user wants to see of a good signature (`--verify-options`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of gpg")]
pub(crate) struct Shown {
    pub(crate) validity: bool,
    pub(crate) policies: bool,
    pub(crate) keyservers: bool,
    pub(crate) unusable_user_ids: bool,
    pub(crate) only_primary: bool,
}

impl Default for Shown {
    fn default() -> Self {
        Self {
            validity: true,
            policies: true,
            keyservers: true,
            unusable_user_ids: false,
            only_primary: false,
        }
    }
}

impl Shown {
    /// Sets a flag by its name; `false` if there is none that is implemented.
    pub(crate) fn set(&mut self, name: &str, value: bool) -> bool {
        let flag = match name {
            "show-uid-validity" => &mut self.validity,
            "show-policy-urls" => &mut self.policies,
            "show-keyserver-urls" => &mut self.keyservers,
            "show-unusable-uids" => &mut self.unusable_user_ids,
            "show-primary-uid-only" => &mut self.only_primary,
            "show-photos" | "show-notations" => return !value,
            // They choose among notations, of which none are shown.
            "show-std-notations" | "show-standard-notations" | "show-user-notations" => {
                return true;
            }
            _ => return false,
        };
        *flag = value;
        true
    }
}
