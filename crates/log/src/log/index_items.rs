//! A log as items of an index, and back (`docs/formats/log.md`, Index).
//!
//! An index has no values of its own: everything in it follows from the entries.

use std::io::{Read, Write};
use std::num::NonZeroU32;
use std::sync::Arc;

use super::memory::Log;
use crate::bytes::{Fields, Malformed, write_part};
use crate::clock::Clock;
use crate::entry::{ENTRY_BYTES_MAX, Entry};
use crate::graph::{Chain, Graph, Location, Number, Shape};
use crate::items::{Reader, Writer};
use crate::name::{ChainName, EntryId, ObjectId};
use crate::state::State;

const WRONG: Malformed = Malformed::Field("index");
/// No entry.
const NONE: Number = Number::MAX;

impl Log {
    /// Writes the log. All its entries are on disk.
    pub(crate) fn write_index(&self, out: &mut Writer<impl Write>) {
        let graph = &self.graph;
        let controls = graph.numbers().filter(|&number| !graph.node(number).is_data());
        let counts = [
            graph.chains.len(),
            graph.objects.all().len(),
            graph.fields.all().len(),
            graph.others.len(),
            graph.nodes.len(),
            controls.clone().count(),
        ];
        let short = |count: usize| u32::try_from(count).expect("fewer than 2^32 entries");
        out.item(|out| counts.iter().for_each(|&count| out.extend(short(count).to_be_bytes())));
        for number in controls {
            out.item(|out| {
                out.extend(number.to_be_bytes());
                write_part(out, 4, &graph.control_entry(number).to_bytes());
            });
        }
        for Chain { name, .. } in &graph.chains {
            out.item(|out| {
                out.extend(name.author.to_bytes());
                out.extend(name.subkey.to_bytes());
                out.extend(name.instance);
            });
        }
        for object in graph.objects.all() {
            out.item(|out| out.extend(object.0));
        }
        for field in graph.fields.all() {
            out.item(|out| write_part(out, 2, field.as_bytes()));
        }
        for others in &graph.others {
            out.item(|out| {
                out.extend(short(others.len()).to_be_bytes());
                for (chain, tip) in others {
                    out.extend(chain.to_be_bytes());
                    out.extend(tip.to_be_bytes());
                }
            });
        }
        for number in graph.numbers() {
            out.item(|out| write_node(graph, number, out));
        }
        self.state.write_index(out);
    }

    /// Reads the log `id`.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the items are not those of a log.
    pub(crate) fn read_index(
        id: EntryId,
        input: &mut Reader<impl Read>,
    ) -> Result<Self, Malformed> {
        let mut counts = [0; 6];
        input.item(|fields| {
            counts.iter_mut().try_for_each(|count| fields.u32().map(|found| *count = found))
        })?;
        let [chains, objects, field_names, others, nodes, controls] = counts;
        let mut bodies: Vec<(Number, Arc<Entry>)> = Vec::new();
        for _ in 0..controls {
            bodies.push(input.item(|fields| {
                let number = fields.u32()?;
                Ok((number, Arc::new(Entry::read(fields.part(4, ENTRY_BYTES_MAX, "entry")?)?)))
            })?);
        }
        let Some((0, genesis)) = bodies.first() else { return Err(WRONG) };
        let bytes = genesis.to_bytes();
        let mut log = Self::begin_own(Arc::clone(genesis), bytes.len()).map_err(|_| WRONG)?;
        if log.id != id {
            return Err(WRONG);
        }
        let graph = &mut log.graph;
        for number in 0..chains {
            let name = input.item(|fields| {
                let (author, subkey) = (fields.key("author")?, fields.key("key")?);
                Ok(ChainName { author, subkey, instance: fields.array()? })
            })?;
            is(graph.chain_number(name) == number)?;
        }
        for number in 0..objects {
            let object = input.item(|fields| fields.array().map(ObjectId))?;
            is(number == 0 || graph.add_object(object) == number)?;
        }
        for number in 0..field_names {
            let field = input.item(|fields| fields.text(usize::from(u16::MAX), "field"))?;
            is(number == 0 || graph.fields.add(field.into()) == number)?;
        }
        for number in 0..others {
            let list = input.item(|fields| {
                let count = fields.u32()?;
                (0..count).map(|_| Ok((fields.u32()?, fields.u32()?))).collect::<Result<_, _>>()
            })?;
            let list: Vec<(u32, Number)> = list;
            is(list.iter().all(|&(chain, tip)| chain < chains && tip < nodes))?;
            is(number == 0 || graph.add_others(list.into()) == number)?;
        }
        let mut rest = bodies.iter().skip(1).peekable();
        // The number has a checksum, but not more than that.
        graph.reserve((nodes as usize).min(1 << 24));
        for number in 0..nodes {
            let (shape, previous, of_others, location, honoured) = input.item(read_node)?;
            let is_known = shape.chain < chains
                && shape.object < objects
                && shape.field < field_names
                && of_others < others
                && shape.grant.is_none_or(|grant| grant.get() < number)
                && (previous == NONE || previous < number);
            is(is_known)?;
            if number > 0 {
                let previous = (previous != NONE).then_some(previous);
                is(previous.is_none_or(|previous| graph.chain_of(previous) == shape.chain))?;
                graph.add_shape(shape, previous, of_others);
                if !graph.node(number).is_data() {
                    let body = rest.next().filter(|(of, _)| *of == number).ok_or(WRONG)?;
                    is(body.1.action.number() == graph.node(number).operation)?;
                    graph.add_body(number, Arc::clone(&body.1));
                }
            }
            let node = &mut graph.nodes[number as usize];
            node.location = Some(location);
            (node.honoured, node.applied) = (honoured, honoured && node.is_data());
        }
        is(rest.next().is_none() && graph.grants_are_grants())?;
        graph.find_from(1);
        for (number, entry) in bodies.iter().skip(1) {
            log.note_control(*number, entry);
        }
        log.state = State::read_index(&log.genesis, input)?;
        Ok(log)
    }
}

fn is(right: bool) -> Result<(), Malformed> {
    if right { Ok(()) } else { Err(WRONG) }
}

fn write_node(graph: &Graph, number: Number, out: &mut Vec<u8>) {
    let (shape, previous, others) = graph.shape(number);
    let node = graph.node(number);
    out.extend(shape.id.0);
    out.extend(shape.clock.0.to_be_bytes());
    let location = node.location.expect("all entries are on disk");
    for part in [
        shape.chain,
        previous.unwrap_or(NONE),
        others,
        shape.bytes,
        shape.grant.map_or(0, NonZeroU32::get),
        shape.object,
        shape.field,
        location.segment,
        location.frame,
        location.record,
        location.entry,
        location.bytes,
    ] {
        out.extend(part.to_be_bytes());
    }
    out.extend([shape.operation, u8::from(node.honoured)]);
}

type ReadNode = (Shape, Number, u32, Location, bool);

/// The bytes of an entry in an index.
const NODE_BYTES: usize = 90;

fn read_node(fields: &mut Fields<'_>) -> Result<ReadNode, Malformed> {
    // One check of the length for all fields.
    let bytes: [u8; NODE_BYTES] = fields.array()?;
    let mut rest = Fields(&bytes);
    let fields = &mut rest;
    let (id, clock) = (fields.id()?, Clock(fields.u64()?));
    let (chain, previous, others, bytes) =
        (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let (grant, object, field) = (NonZeroU32::new(fields.u32()?), fields.u32()?, fields.u32()?);
    let location = Location {
        segment: fields.u32()?,
        frame: fields.u32()?,
        record: fields.u32()?,
        entry: fields.u32()?,
        bytes: fields.u32()?,
    };
    let (operation, honoured) = (fields.u8()?, fields.u8()? == 1);
    let shape = Shape { id, clock, chain, bytes, grant, operation, object, field };
    Ok((shape, previous, others, location, honoured))
}
