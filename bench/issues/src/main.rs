//! Issues with assignees, labels and comments over REST: Marmota's program in the suite
//! `relations`. With `--fill` it fills a database and ends.

use clap::Parser;
use marmota::prelude::*;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Options {
    /// URL of the database
    #[arg(long)]
    db: String,
    /// Port on 127.0.0.1
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Fill the empty tables, and end
    #[arg(long)]
    fill: bool,
}

#[derive(Model)]
struct Person {
    id: i64,
    name: String,
}

#[derive(Model)]
#[model(relation(labels = "issue_label.label"))]
struct Issue {
    id: i64,
    title: String,
    state: String,
    estimate: i64,
    assignee: Option<Ref<Person>>,
}

#[derive(Model)]
struct Label {
    id: i64,
    name: String,
}

#[derive(Model)]
struct IssueLabel {
    id: i64,
    issue: Ref<Issue>,
    label: Ref<Label>,
}

#[derive(Model)]
struct Comment {
    id: i64,
    issue: Ref<Issue>,
    author: Ref<Person>,
    body: String,
}

const PERSONS: i64 = 100;
const LABELS: i64 = 20;
const ISSUES: i64 = 2_000;
const COMMENTS: i64 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    let store = marmota::open(&options.db)?
        .model::<Person>()
        .model::<Issue>()
        .model::<Label>()
        .model::<IssueLabel>()
        .model::<Comment>()
        .open()?;
    if options.fill {
        fill(&store)?;
        return Ok(store.close()?);
    }
    Server::bind(format!("127.0.0.1:{}", options.port))?.run(rest::api(&store))?;
    Ok(store.close()?)
}

fn fill(store: &Store) -> Result<(), Error> {
    let person = |number| Person { id: 0, name: format!("Person {number}") };
    let persons = store.insert_many(&Vec::from_iter((0..PERSONS).map(person))).run()?;
    let label = |number| Label { id: 0, name: format!("label {number}") };
    let labels = store.insert_many(&Vec::from_iter((0..LABELS).map(label))).run()?;
    let one_of = |keys: &[i64], number: i64| keys[number as usize % keys.len()];
    let issue = |number: i64| Issue {
        id: 0,
        title: format!("Issue {number} is about something that does not work"),
        state: ["open", "started", "closed"][number as usize % 3].to_owned(),
        estimate: number % 13,
        assignee: (number % 10 != 0).then(|| Ref::new(one_of(&persons, number * 7))),
    };
    let issues = store.insert_many(&Vec::from_iter((0..ISSUES).map(issue))).run()?;
    let (mut links, mut comments) = (Vec::new(), Vec::new());
    for (number, &key) in (0..).zip(&issues) {
        for nth in 0..2 + number % 3 {
            let label = Ref::new(one_of(&labels, number * 3 + nth));
            links.push(IssueLabel { id: 0, issue: Ref::new(key), label });
        }
        for nth in 0..COMMENTS {
            let author = Ref::new(one_of(&persons, number + nth * 11));
            let body = format!("Comment {nth} on issue {number}: it happens on my machine, too");
            comments.push(Comment { id: 0, issue: Ref::new(key), author, body });
        }
    }
    store.insert_many(&links).run()?;
    store.insert_many(&comments).run()?;
    Ok(())
}
