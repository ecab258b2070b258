//! Lists (Fugue, Weidner and Kleppmann 2023): elements in a tree, read in order.
//!
//! Each element hangs on the left or the right side of another one. Two texts that are typed at one
//! place at once do not mix, because each continues below its own elements.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::index_parts::{read_optional, read_set, write_count, write_optional, write_set};
use crate::action::Side;
use crate::bytes::{Fields, Malformed};
use crate::name::EntryId;
use crate::stamp::Stamp;
use crate::value::Value;

/// The elements of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    /// The children of each element by side, in the order of their stamps. A value is `None` if the
    /// insertion does not count.
    children: HashMap<(EntryId, Side), BTreeMap<Stamp, Option<Value>>>,
    erased: HashSet<EntryId>,
}

/// A step of the walk in order.
enum Step<'a> {
    Below(EntryId, Side),
    Element(EntryId, &'a Option<Value>),
}

impl List {
    pub(super) fn insert(
        &mut self,
        stamp: Stamp,
        parent: EntryId,
        side: Side,
        value: Option<Value>,
    ) {
        self.children.entry((parent, side)).or_default().insert(stamp, value);
    }

    pub(super) fn erase(&mut self, element: EntryId) {
        self.erased.insert(element);
    }

    /// Appends the list for an index.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_count(self.children.values().map(BTreeMap::len).sum(), out);
        for ((parent, side), children) in &self.children {
            for (stamp, value) in children {
                out.extend(parent.0);
                out.push(u8::from(*side == Side::Right));
                stamp.write(out);
                write_optional(value.as_ref(), out);
            }
        }
        write_set(&self.erased, out);
    }

    /// Reads a list from an index.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the bytes do not begin with those of a list.
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let mut list = Self::default();
        for _ in 0..fields.u64()? {
            let parent = fields.id()?;
            let side = if fields.u8()? == 1 { Side::Right } else { Side::Left };
            let stamp = Stamp::read(fields)?;
            list.insert(stamp, parent, side, read_optional(fields)?);
        }
        list.erased = read_set(fields)?;
        Ok(list)
    }

    /// All elements in order, also those that are not shown.
    fn walk<'a>(&'a self, mut see: impl FnMut(EntryId, Option<&'a Value>)) {
        // Depth is that of the list, so it must not be that of the stack.
        let mut open = vec![Step::Below(EntryId::NONE, Side::Right)];
        while let Some(step) = open.pop() {
            match step {
                Step::Element(id, value) => see(id, value.as_ref()),
                Step::Below(parent, side) => {
                    for (stamp, value) in
                        self.children.get(&(parent, side)).into_iter().flatten().rev()
                    {
                        open.push(Step::Below(stamp.id, Side::Right));
                        open.push(Step::Element(stamp.id, value));
                        open.push(Step::Below(stamp.id, Side::Left));
                    }
                }
            }
        }
    }

    /// The shown elements in order.
    pub(super) fn elements(&self) -> Vec<(EntryId, Value)> {
        let mut shown = Vec::new();
        self.walk(|id, value| {
            if let Some(value) = value
                && !self.erased.contains(&id)
            {
                shown.push((id, value.clone()));
            }
        });
        shown
    }

    /// The place for a new element behind the shown element `after`; at the start for `None`.
    pub(crate) fn place_after(&self, after: Option<EntryId>) -> (EntryId, Side) {
        let left = after.unwrap_or(EntryId::NONE);
        if !self.children.contains_key(&(left, Side::Right)) {
            return (left, Side::Right);
        }
        // The next element in order, shown or not. It has no left child, because that would be
        // next.
        let mut next = None;
        let mut passed = after.is_none();
        self.walk(|id, _| {
            if passed && next.is_none() {
                next = Some(id);
            }
            passed |= Some(id) == after;
        });
        next.map_or((left, Side::Right), |next| (next, Side::Left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::name::KeyName;
    use talaria_cert::Fingerprint;

    fn stamp(number: u8) -> Stamp {
        let author = KeyName::of(Fingerprint::V4([7; 20])).unwrap();
        Stamp { clock: Clock(u64::from(number)), author, id: EntryId([number; 32]) }
    }

    fn text(list: &List) -> String {
        list.elements().iter().map(|(_, value)| value.to_string()).collect()
    }

    fn put(list: &mut List, number: u8, at: (EntryId, Side), text: &str) -> EntryId {
        list.insert(stamp(number), at.0, at.1, Some(Value::String(text.to_owned())));
        stamp(number).id
    }

    fn put_after(list: &mut List, number: u8, after: Option<EntryId>, text: &str) -> EntryId {
        let at = list.place_after(after);
        put(list, number, at, text)
    }

    #[test]
    fn elements_go_where_they_are_put() {
        let mut list = List::default();
        let a = put_after(&mut list, 1, None, "a");
        let c = put_after(&mut list, 2, Some(a), "c");
        put_after(&mut list, 3, Some(a), "b");
        put_after(&mut list, 4, None, "0");
        put_after(&mut list, 5, Some(c), "d");
        assert_eq!(text(&list), "0abcd");
        list.erase(c);
        put_after(&mut list, 6, Some(c), "C");
        assert_eq!(text(&list), "0abCd");
    }

    /// Two authors type a word each at the same place without seeing the other.
    #[test]
    fn words_typed_at_once_do_not_mix() {
        for backwards in [false, true] {
            let start = List::default();
            let typed = |from: u8, word: &str| {
                let mut list = start.clone();
                let mut made = Vec::new();
                let mut last = None;
                for (at, letter) in word.chars().enumerate() {
                    let place = list.place_after(if backwards { None } else { last });
                    let number = from + 2 * u8::try_from(at).unwrap();
                    last = Some(put(&mut list, number, place, &letter.to_string()));
                    made.push((number, place, letter));
                }
                made
            };
            let mut both = List::default();
            for (number, place, letter) in typed(10, "milk").into_iter().chain(typed(11, "eggs")) {
                put(&mut both, number, place, &letter.to_string());
            }
            let wanted =
                if backwards { ["klimsgge", "sggeklim"] } else { ["milkeggs", "eggsmilk"] };
            assert!(wanted.contains(&text(&both).as_str()), "{}", text(&both));
        }
    }

    /// An insertion that does not count keeps the place of those below it.
    #[test]
    fn elements_below_an_insertion_that_does_not_count_stay() {
        let mut list = List::default();
        list.insert(stamp(1), EntryId::NONE, Side::Right, None);
        put(&mut list, 2, (stamp(1).id, Side::Right), "b");
        put(&mut list, 3, (stamp(1).id, Side::Left), "a");
        assert_eq!(text(&list), "ab");
    }

    #[test]
    fn a_long_list_needs_no_deep_stack() {
        let mut list = List::default();
        let mut last = EntryId::NONE;
        for number in 0..200_000_u64 {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&(number + 1).to_be_bytes());
            let stamp = Stamp { id: EntryId(id), clock: Clock(number), ..stamp(1) };
            list.insert(stamp, last, Side::Right, Some(Value::Boolean(true)));
            last = stamp.id;
        }
        assert_eq!(list.elements().len(), 200_000);
    }
}
