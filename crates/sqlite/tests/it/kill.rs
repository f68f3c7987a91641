//! A process that is killed while it writes: what it acknowledged is there.

use std::collections::HashSet;
use std::io::Write;

use marmota_model::{RowQuery, ValueRef};
use marmota_store::engine::Engine;
use marmota_store::operation::{Keys, Operation};

use crate::database::{Calls, file, id, table, text};
use crate::killed::written_until_killed;

const ROUNDS: u64 = 20;

fn note() -> std::sync::Arc<marmota_model::Table> {
    table("note", vec![id(), text("body").unique(true)])
}

#[test]
fn every_acknowledged_row_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let mut acknowledged = HashSet::new();
    for round in 0..ROUNDS {
        let told = written_until_killed("kill::writes_until_killed", &path, round, &[]);
        assert!(!told.is_empty(), "round {round} wrote nothing");
        acknowledged.extend(told);
        let note = note();
        let engine = file(&path, std::slice::from_ref(&note));
        let rows = engine.session().unwrap().rows(&note, &RowQuery::new());
        let there: HashSet<String> =
            rows.iter().filter_map(|row| row[1].as_ref().as_text().map(str::to_owned)).collect();
        let lost: Vec<_> = acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "round {round} lost {lost:?}");
        // Pairs are written together, by a transaction or in one call.
        for body in &there {
            let half = body.strip_suffix(":a").map(|rest| format!("{rest}:b"));
            assert!(half.is_none_or(|half| there.contains(&half)), "half of {body}");
        }
        engine.execute("PRAGMA integrity_check").unwrap();
    }
}

/// The process that is killed: single rows, many at once, and transactions.
#[test]
#[ignore = "a process that another test starts"]
fn writes_until_killed() {
    let path = std::env::var_os("MARMOTA_WRITE").expect("started by another test");
    let round = std::env::var("MARMOTA_ROUND").unwrap();
    let note = note();
    let engine = file(path.as_ref(), std::slice::from_ref(&note));
    let mut session = engine.session().unwrap();
    let mut out = std::io::stdout();
    writeln!(out).unwrap();
    for number in 0_u64.. {
        let bodies: Vec<String> = match number % 3 {
            0 => vec![format!("{round}:{number}")],
            _ => ["a", "b"].iter().map(|half| format!("{round}:{number}:{half}")).collect(),
        };
        let rows: Vec<Vec<ValueRef<'_>>> =
            bodies.iter().map(|body| vec![ValueRef::Absent, ValueRef::Text(body)]).collect();
        match number % 3 {
            1 => {
                let outcome = session.insert_many(&note, &rows).unwrap();
                assert!(matches!(outcome.keys, Keys::Range { .. }));
            }
            2 => {
                session.run(Operation::Begin).unwrap();
                for row in &rows {
                    session.insert(&note, row).unwrap();
                }
                session.run(Operation::Commit).unwrap();
            }
            _ => {
                session.insert(&note, &rows[0]).unwrap();
            }
        }
        for body in &bodies {
            writeln!(out, "row {body}.").unwrap();
        }
        out.flush().unwrap();
    }
}
