//! Nodes in one process and in several.

mod exchange;
mod hostile;
mod kills;
mod site;
mod stream;
