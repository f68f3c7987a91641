//! The subcommand `job`, on the database of another program.

use std::process::ExitCode;

use marmota::command::Command;
use marmota::jobs::{self, EnqueueJobs as _, JobAdmin, JobId, JobState, job};
use marmota::prelude::*;

#[derive(Model)]
struct Note {
    id: i64,
    text: String,
}

#[job(queue = "mail")]
async fn send_mail(to: String) -> Result<()> {
    drop(to);
    Ok(())
}

/// Runs the subcommand in a program that has other models and no jobs.
fn run(arguments: &[&str]) -> bool {
    let program = Command::new(|url| Ok(marmota::open(url)?.model::<Note>()));
    let words = ["program", "job"].into_iter().chain(arguments.iter().copied());
    program.run_with(words) == ExitCode::SUCCESS
}

#[test]
fn jobs_are_listed_shown_cancelled_and_retried() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    let url = format!("sqlite:{}", file.display());
    // A missing database is an error, and is not made.
    assert!(!run(&["list", "--db", &url]));
    assert!(!file.exists());
    let open = || jobs::models(marmota::open(&url).unwrap()).open().unwrap();
    let store = open();
    let id: JobId = store.enqueue(&SendMail { to: "ada".into() }).run().unwrap().id;
    store.close().unwrap();
    let state = || {
        let store = open();
        let state = JobAdmin::new(&store).get(id).run().unwrap().state;
        store.close().unwrap();
        state
    };
    let id_text = id.to_string();
    assert!(run(&["list", "--db", &url, "--queue", "mail", "--state", "pending", "--json"]));
    assert!(run(&["show", &id_text, "--db", &url]));
    assert!(run(&["statistics", "--db", &url, "--json"]));
    // It is pending already.
    assert!(!run(&["retry", &id_text, "--db", &url]));
    assert!(run(&["cancel", &id_text, "--db", &url]));
    assert_eq!(state(), JobState::Cancelled);
    assert!(!run(&["cancel", &id_text, "--db", &url]));
    assert!(run(&["retry", &id_text, "--db", &url, "--json"]));
    assert_eq!(state(), JobState::Pending);
    assert!(!run(&["show", "17", "--db", &url]));
    assert!(!run(&["show", &JobId(Uuid::now_v7()).to_string(), "--db", &url]));
    // The other program's database has none of this program's tables.
    let plan = marmota::open(&url).unwrap().model::<Note>().plan().unwrap();
    assert!(!plan.steps.is_empty());
}

#[test]
fn a_database_without_jobs_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("app.db").display());
    marmota::open(&url).unwrap().model::<Note>().open().unwrap().close().unwrap();
    assert!(!run(&["list", "--db", &url]));
    let plan = jobs::models(marmota::open(&url).unwrap()).plan().unwrap();
    assert!(!plan.steps.is_empty());
}
