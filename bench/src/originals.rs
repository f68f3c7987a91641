//! Marmota next to the programs that it was modelled on, built from checkouts that the user names:
//! mORMot 2 (its TechEmpower server, its benchmark of engines, its transit server), the entries of
//! the transit challenge in Go and Rust, and a lean server in Pascal.

mod build;
mod lean;
mod orm;
mod techempower;
mod transit;

use crate::http::roster::{Role, ServerSpec, Source};
use crate::techempower::load::LoadArgs;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};

/// Options of `bench originals`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only these parts. Default: all whose checkouts are named
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    part: Vec<Part>,
    /// A checkout of <https://github.com/synopse/mORMot2>. Default: the variable MORMOT2_DIR
    #[arg(long, value_name = "DIR")]
    mormot2: Option<PathBuf>,
    /// A checkout of <https://github.com/losvedir/transit-lang-cmp>. Default: the variable
    /// TRANSIT_DIR
    #[arg(long, value_name = "DIR")]
    transit: Option<PathBuf>,
    /// A checkout of <https://github.com/andrei-markeev/pascal-web-server>. Default: the variable
    /// PASCAL_WEB_DIR
    #[arg(long, value_name = "DIR")]
    pascal_web: Option<PathBuf>,
    /// A checkout of <https://github.com/almindor/lnet>, the sockets of the lean server. Default: the
    /// variable LNET_DIR
    #[arg(long, value_name = "DIR")]
    lnet: Option<PathBuf>,
    #[command(flatten)]
    load: LoadArgs,
    /// Size of the feed of the part `transit`, relative to the real one
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
}

/// A part of the suite.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Part {
    /// mORMot's TechEmpower server on SQLite
    Techempower,
    /// mORMot's benchmark of engines, compared with `marmota bench orm`
    Orm,
    /// The transit servers in Go, Rust and Pascal
    Transit,
    /// The routes of the lean server that need no database
    Lean,
}

/// The checkouts that the user names.
struct Checkouts {
    mormot: Option<PathBuf>,
    transit: Option<PathBuf>,
    pascal_web: Option<PathBuf>,
    lnet: Option<PathBuf>,
}

/// Builds the programs, measures them and prints the tables.
pub(crate) fn run(args: &Args) -> Result<()> {
    let named = |option: &Option<PathBuf>, variable: &str| {
        option.clone().or_else(|| std::env::var_os(variable).map(PathBuf::from))
    };
    let checkouts = Checkouts {
        mormot: named(&args.mormot2, "MORMOT2_DIR"),
        transit: named(&args.transit, "TRANSIT_DIR"),
        pascal_web: named(&args.pascal_web, "PASCAL_WEB_DIR"),
        lnet: named(&args.lnet, "LNET_DIR"),
    };
    let mut has_run = false;
    for part in [Part::Techempower, Part::Orm, Part::Transit, Part::Lean] {
        let is_named = args.part.contains(&part);
        if !is_named && !args.part.is_empty() {
            continue;
        }
        let missing = checkouts.missing(part);
        ensure!(missing.is_empty() || !is_named, "{part:?}: set {}", missing.join(", "));
        if !missing.is_empty() {
            eprintln!("not run: {part:?}; set {}", missing.join(", "));
            continue;
        }
        has_run = true;
        println!("\n# {part:?}");
        match (part, &checkouts) {
            (Part::Techempower, Checkouts { mormot: Some(mormot), .. }) => {
                techempower::run(&args.load, mormot)?;
            }
            (Part::Orm, Checkouts { mormot: Some(mormot), .. }) => orm::run(mormot)?,
            (Part::Transit, Checkouts { transit: Some(transit), mormot, .. }) => {
                transit::run(args, transit, mormot.as_deref())?;
            }
            (Part::Lean, Checkouts { pascal_web: Some(server), lnet: Some(lnet), .. }) => {
                lean::run(&args.load, server, lnet)?;
            }
            // Their checkouts are named.
            _ => {}
        }
    }
    ensure!(
        has_run,
        "no checkout is named: set MORMOT2_DIR, TRANSIT_DIR, or PASCAL_WEB_DIR and LNET_DIR"
    );
    Ok(())
}

impl Checkouts {
    /// Returns the variables that a part needs and that are not set.
    fn missing(&self, part: Part) -> Vec<&'static str> {
        let needed: &[(&Option<PathBuf>, &str)] = match part {
            Part::Techempower | Part::Orm => &[(&self.mormot, "MORMOT2_DIR")],
            Part::Transit => &[(&self.transit, "TRANSIT_DIR")],
            Part::Lean => &[(&self.pascal_web, "PASCAL_WEB_DIR"), (&self.lnet, "LNET_DIR")],
        };
        needed.iter().filter(|(folder, _)| folder.is_none()).map(|(_, name)| *name).collect()
    }
}

/// A server that ends when its input does: it gets an input without an end. `command` is a command of
/// the shell, in which `{port}` is replaced by the port.
fn with_input(name: &str, role: Role, command: &str) -> (ServerSpec, PathBuf) {
    let command = format!("mkfifo input && exec 3<>input && {command} <&3");
    let shell = Path::new("/bin/sh");
    let source = Source::Program(shell.to_owned());
    (ServerSpec::new(name, role, source, &["-c", &command], ""), shell.to_owned())
}
