//! The file with a message: opened, without its armor, and given to the [`Processor`].

use std::io::{BufReader, Read as _};

use crate::armor::{Armor, may_be_armored};
use crate::code::{Code, Exit};
use crate::descriptor;
use crate::process::{Processor, Source};
use crate::progress::{Progress, Told};

/// The number of bytes of a file that are read at once.
const READ_BYTES: usize = 64 << 10;

/// The result for a message, and whether it was text without an armored block.
type Processed = (Result<(), Code>, bool);

/// Processes the file with a signature. An error was not reported yet.
///
/// # Errors
///
/// [`Exit`] after a bad signature.
pub(crate) fn verify(processor: &mut Processor<'_>) -> Result<Result<(), Code>, Exit> {
    let (result, is_without_block) = process(processor)?;
    match result {
        Err(Code::NoData) => {}
        Err(Code::Empty) if is_without_block => {}
        other => return Ok(other),
    }
    processor.session.log.error(
        "the signature could not be verified.\n\
         Please remember that the signature file (.sig or .asc)\n\
         should be the first file given on the command line.",
    );
    Ok(Ok(()))
}

/// Opens the file and processes it. An error was not reported yet.
///
/// # Errors
///
/// [`Exit`] after a bad signature.
pub(crate) fn process(processor: &mut Processor<'_>) -> Result<Processed, Exit> {
    let session = processor.session;
    let name = processor.name.unwrap_or("-".as_ref());
    let file = match descriptor::open(name, session.specials) {
        Ok(file) => file,
        Err(error) => {
            let code = Code::system(&error);
            let shown = name.to_string_lossy();
            session.log.error(format!("can't open '{shown}': {}", code.text()));
            return Ok((Err(code), false));
        }
    };
    let length = file.metadata().map_or(0, |meta| usize::try_from(meta.len()).unwrap_or(0));
    let progress = Progress::begin(session, processor.name, &file);
    let mut file = Told { session, progress, reader: file };
    let mut start = Vec::new();
    let mut first = (&mut file).take(2);
    while start.len() < 2 && first.read_to_end(&mut start).is_ok_and(|read| read > 0) {}
    let is_armored = may_be_armored(&start);
    let input = BufReader::with_capacity(
        (length + 1).clamp(4096, READ_BYTES),
        std::io::Cursor::new(start).chain(&mut file),
    );
    let mut source = if is_armored {
        Source::Armored(Armor::new(session, input))
    } else {
        Source::Packets(input)
    };
    let result = processor.message(&mut source)?;
    let mut is_without_block = false;
    if let Source::Armored(armor) = &mut source {
        armor.close();
        is_without_block = armor.is_without_block();
    }
    Ok((result, is_without_block))
}
