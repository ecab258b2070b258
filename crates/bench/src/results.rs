//! Where results are kept: one CSV file and some plots for each measurement.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use crate::BenchError;
use crate::plot::Plot;
use crate::table::Table;

/// Writes `NAME.csv`, and `NAME.svg` or `NAME-SUFFIX.svg` for each plot, into `folder`.
pub(crate) fn save(
    folder: Option<&Path>,
    name: &str,
    table: &Table,
    plots: &[(&str, &Plot)],
) -> Result<(), BenchError> {
    let Some(folder) = folder else { return Ok(()) };
    fs::create_dir_all(folder).map_err(BenchError::io("make", folder))?;
    let path = folder.join(format!("{name}.csv"));
    let error = BenchError::io("write", &path);
    let mut file = BufWriter::new(File::create(&path).map_err(&error)?);
    table.csv(&mut file).and_then(|()| file.flush()).map_err(&error)?;
    for (suffix, plot) in plots {
        let dash = if suffix.is_empty() { "" } else { "-" };
        let path = folder.join(format!("{name}{dash}{suffix}.svg"));
        fs::write(&path, plot.svg()).map_err(BenchError::io("write", &path))?;
    }
    Ok(())
}
