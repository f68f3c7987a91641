//! The transit servers: the entries of the challenge in Go and Rust, and mORMot's.

use super::{Args, build, with_input};
use crate::http::roster::Role;
use crate::transit::{self, Answers, Feed};
use anyhow::Result;
use std::path::Path;

/// Builds the servers, compares their answers, measures them and prints the table.
pub(super) fn run(args: &Args, checkout: &Path, mormot: Option<&Path>) -> Result<()> {
    let options = transit::Args::with_scale(args.scale);
    let feed = Feed::new(&options)?;
    let mut programs = vec![feed.marmota()?];
    let mut entries = vec![
        ("Go, corrected", build::transit_in_go(checkout)?),
        ("Rust", build::transit_in_rust(checkout)?),
    ];
    if let Some(mormot) = mormot {
        entries.push(("mORMot 2", build::mormot(mormot, &build::TRANSIT)?));
    }
    let folder = feed.folder()?;
    for (name, program) in entries {
        // They read ../MBTA_GTFS.
        let command = format!(
            "ln -s '{folder}' MBTA_GTFS && mkdir run && cd run && PORT={{port}} exec '{}'",
            program.display()
        );
        programs.push(with_input(name, Role::Peer, &command));
    }
    transit::measure_all(&options, &feed, &programs, Answers::InAnyOrder)
}
