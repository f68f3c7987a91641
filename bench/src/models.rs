//! Measures the compile time that a model adds to a release build. Crates with 10 and with 200
//! models are compiled in turn; the difference is divided by 190.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

const FEW: usize = 10;
const MANY: usize = 200;
/// The project's limit for one model, in milliseconds.
const ALLOWED_MS: f64 = 30.0;

/// Options of `bench models`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Compilations of each crate; the table shows medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for models in [FEW, MANY] {
        write_crate(&folder.path().join(models.to_string()), models)?;
    }
    // Round 0 also compiles Marmota itself; later rounds compile only the generated crate.
    for round in 0..=args.rounds {
        for (models, costs) in [(FEW, &mut few), (MANY, &mut many)] {
            eprintln!("round {round}: {models} models");
            let cost = compile(&folder.path().join(models.to_string()), folder.path())?;
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    let (few, many) = (median(few), median(many));
    let each = |few: f64, many: f64| (many - few) / (MANY - FEW) as f64 * 1000.0;
    println!("| release build of | seconds | CPU seconds |\n|---|---|---|");
    println!("| {FEW} models of 10 fields | {:.2} | {:.2} |", few.0, few.1);
    println!("| {MANY} models of 10 fields | {:.2} | {:.2} |", many.0, many.1);
    println!(
        "| each model, ms (at most {ALLOWED_MS}) | {:.1} | {:.1} |",
        each(few.0, many.0),
        each(few.1, many.1)
    );
    Ok(())
}

fn write_crate(folder: &Path, models: usize) -> Result<()> {
    let marmota = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/marmota");
    fs::create_dir_all(folder.join("src"))?;
    fs::write(
        folder.join("Cargo.toml"),
        format!(
            "[package]\nname = \"models{models}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
             [dependencies]\nmarmota = {{ path = {marmota:?}, default-features = false }}\n\n\
             [workspace]\n"
        ),
    )?;
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    fs::copy(lock, folder.join("Cargo.lock"))?;
    let mut source = String::from("use marmota::prelude::*;\n");
    for number in 0..models {
        write!(
            source,
            "#[derive(Model)]\n#[model(index(last_name, first_name))]\npub struct Person{number} {{\n\
             pub id: i64,\n#[model(max = 40, not_empty)]\npub first_name: String,\n\
             #[model(max = 40)]\npub last_name: String,\n#[model(range(min = 0, max = 150))]\n\
             pub age: u8,\npub height: Option<f64>,\npub balance: Currency,\npub born: Date,\n\
             #[model(created_at)]\npub created: Timestamp,\n#[model(updated_at)]\n\
             pub updated: Timestamp,\n#[model(version)]\npub version: i64,\n}}\n"
        )?;
    }
    fs::write(folder.join("src/lib.rs"), source)?;
    Ok(())
}

/// Compiles the crate again and returns wall-clock and CPU seconds.
fn compile(folder: &Path, target: &Path) -> Result<(f64, f64)> {
    let source = folder.join("src/lib.rs");
    let text = fs::read_to_string(&source)?;
    fs::write(&source, text)?;
    let (begun, cpu) = (Instant::now(), children_cpu()?);
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--quiet", "--target-dir"])
        .arg(target.join("target"))
        .current_dir(folder)
        .status()?;
    ensure!(status.success(), "the generated crate does not compile");
    Ok((begun.elapsed().as_secs_f64(), children_cpu()? - cpu))
}

/// CPU seconds of the exited children, from `/proc/self/stat`.
fn children_cpu() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat has no name")?;
    // cutime and cstime are fields 16 and 17; the first one after the name is 3.
    let ticks: u64 = fields.split_whitespace().skip(13).take(2).flat_map(str::parse::<u64>).sum();
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn median(mut costs: Vec<(f64, f64)>) -> (f64, f64) {
    let middle = costs.len() / 2;
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wall = costs[middle].0;
    costs.sort_by(|a, b| a.1.total_cmp(&b.1));
    (wall, costs[middle].1)
}
