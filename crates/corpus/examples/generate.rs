//! Writes generated certificates: `generate PROFILE COUNT PREFIX [FILES]`.

use std::path::Path;
use std::time::Instant;

use talaria_corpus::{CorpusProfile, Generate, generate_files};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [profile, count, prefix, rest @ ..] = &args[..] else {
        return Err("generate PROFILE COUNT PREFIX [FILES]".into());
    };
    let profile = CorpusProfile::named(profile).ok_or("profiles: small, ring, ed25519")?;
    let options = Generate { count: count.parse()?, profile, ..Generate::default() };
    let files = rest.first().map_or(Ok(1), |files| files.parse())?;
    let start = Instant::now();
    let files = generate_files(&options, Path::new(prefix), files)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{} files in {seconds:.2} s", files.len());
    Ok(())
}
