//! Writes the seeds of each fuzz target: `seed FOLDER` makes `FOLDER/TARGET/…`.

use std::path::Path;

// The instrumented crates call it.
use libfuzzer_sys as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: seed FOLDER")?;
    talaria_fuzz::seeds::write(Path::new(&folder))
}

/// Stubs for the coverage functions of libFuzzer: this program is compiled like the targets, and
/// does not use libFuzzer.
#[cfg(fuzzing)]
mod coverage {
    #[unsafe(no_mangle)]
    extern "C" fn __sanitizer_cov_8bit_counters_init(_start: *mut u8, _end: *mut u8) {}

    #[unsafe(no_mangle)]
    extern "C" fn __sanitizer_cov_pcs_init(_start: *const usize, _end: *const usize) {}

    #[unsafe(no_mangle)]
    extern "C" fn __sanitizer_cov_trace_pc_indir(_callee: usize) {}
}
