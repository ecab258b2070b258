//! Changes that begin or cease to count, for listeners.

use super::error::DraftError;
use super::memory::{Before, Log, Proposal};
use crate::action::{Action, Change, DataAction};
use crate::graph::Number;
use crate::listen::{Event, Interest, Turn};
use crate::name::KeyName;

impl Log {
    pub(crate) fn ask_before(&mut self, interest: Interest, check: Before) {
        self.listening.before.push((interest, check));
    }

    /// Notes from now on which changes turn.
    pub(crate) fn note_turns(&mut self) {
        self.listening.turned.get_or_insert_default();
    }

    /// Notes whether a change counts from now on. The node has the state of before.
    pub(super) fn note_turn(&mut self, number: Number, counts: bool) {
        let Some(turned) = &mut self.listening.turned else { return };
        let node = self.graph.node(number);
        if node.honoured != counts && node.is_data() {
            turned.push((number, counts));
        }
    }

    /// The changes that turned since the last call, in the order of admission.
    pub(crate) fn take_turns(&mut self) -> Vec<Event> {
        let turned = self.listening.turned.as_mut().map(std::mem::take).unwrap_or_default();
        let event = |(number, counts): (Number, bool)| {
            let entry = self.graph.entry(number)?;
            let Action::Data(data) = &entry.action else { return None };
            let turn = if counts { Turn::Applied } else { Turn::Undone(self.standing_of(number)) };
            Some(Event {
                turn,
                entry: self.graph.node(number).id,
                author: entry.author(),
                clock: entry.clock,
                object: data.object,
                name: self.state.name(data.object).map(str::to_owned),
                change: match &data.change {
                    Change::Field(field, change) => Change::Field(
                        field.clone(),
                        self.state.revealed(&self.graph.node(number).id, change),
                    ),
                    other => other.clone(),
                },
            })
        };
        turned.into_iter().filter_map(event).collect()
    }

    /// Asks those who listen before a change is signed.
    pub(super) fn ask(&self, author: KeyName, data: &DataAction) -> Result<(), DraftError> {
        let name = self.state.name(data.object);
        for (interest, check) in &self.listening.before {
            if interest.wants(data.object, name, &data.change) {
                let proposal = Proposal { log: self, author, data };
                check(&proposal).map_err(DraftError::Rejected)?;
            }
        }
        Ok(())
    }
}
