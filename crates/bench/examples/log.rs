//! Measures the signed log: `log [UPDATES] [RUNS] [SLOW_RUNS] [SCRATCH] [GROWTH,…]`. The same as
//! `talaria bench log`, in a smaller program.

use std::path::PathBuf;

use talaria_bench::log::{LogOptions, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "--version") {
        return Ok(());
    }
    if let [log, _, folder, ..] = &args[..]
        && log == "log"
    {
        let log = talaria_log::LogFolder::open(folder.as_ref())?;
        assert!(log.read(|log| log.find_object("object-0"))?.is_ok());
        return Ok(());
    }
    let defaults = LogOptions::default();
    let number = |at: usize, default: usize| args.get(at).map_or(Ok(default), |text| text.parse());
    let options = LogOptions {
        updates: number(0, defaults.updates)?,
        runs: number(1, defaults.runs)?,
        slow_runs: number(2, defaults.slow_runs)?,
        program: std::env::current_exe()?,
        scratch: args.get(3).map_or(defaults.scratch, PathBuf::from),
        growth: match args.get(4) {
            None => defaults.growth,
            Some(text) => text.split(',').map(str::parse).collect::<Result<_, _>>()?,
        },
        ..defaults
    };
    run(&options, &mut std::io::stdout().lock())?;
    Ok(())
}
