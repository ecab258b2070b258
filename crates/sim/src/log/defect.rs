//! Defects on purpose.

/// Something that is wrong on purpose, to see that the simulator notices it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Defect {
    /// Nothing.
    #[default]
    None,
    /// Disks ignore syncs.
    SyncsIgnored,
    /// Entries leave a node before they are durable.
    SentBeforeSync,
    /// A machine that is set back to an older state keeps its instance.
    InstanceKept,
}
