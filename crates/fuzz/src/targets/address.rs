//! Any bytes as a user ID: the address reads back as the same one, whatever the case of its
//! ASCII letters, and two user IDs with the same address in GnuPG's tofu.db have equal addresses.

use talaria_cert::address::{gnupg_name, mailbox};
use talaria_cert::{Address, Addressee, Handle};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let address = Address::of_user_id(bytes);
    assert_eq!(address.is_some(), mailbox(bytes).is_some());
    assert_eq!(Address::of_user_id(&bytes.to_ascii_uppercase()), address);
    let addressee = Addressee::of_user_id(bytes);
    assert_eq!(Addressee::of_gnupg_name(&gnupg_name(bytes)), addressee);
    let Some(address) = address else { return };
    assert_eq!(Address::of_mailbox(address.as_bytes()).as_ref(), Some(&address));
    let within = [b"Alice <", address.as_bytes(), b"> <mallory@evil.example>"].concat();
    assert!(address.is_of(&within));
    assert_eq!(Handle::of_addressee(&Addressee::from(address)), Handle::of_addressee(&addressee));
}
