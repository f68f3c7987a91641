//! A replica set of two servers, as far as a driver can tell: a proxy in front of
//! FerretDB, which has no transactions and no change streams.
//!
//! It says what MongoDB 5 to 8 say to `hello` (`tests/data`, put together from
//! their documentation: no such server was at hand to be recorded), and does
//! itself what FerretDB lacks. Transactions take place one at a time: whatever
//! else is asked meanwhile waits for their end. Like a server of MongoDB's it
//! ends a transaction at the first command that fails in it, and refuses those
//! that break the rules of its protocol, which it keeps to be looked at
//! ([`Replica::breaches`]). So what is tested by it is the protocol, what
//! becomes of errors, and what the engine makes of both: not how transactions
//! of a real server that run side by side are kept apart. Nor does it commit as
//! a whole: others only wait.
//!
//! By rules ([`Replica::on`]) it refuses, and cuts connections, where a test
//! wants it; events of change streams are made by hand ([`Replica::tell`]).

mod message;
mod stream;
mod transactions;

use std::collections::VecDeque;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};

use message::Message;
use stream::Streams;
use transactions::Transactions;

/// The versions whose handshakes there are.
pub(crate) const VERSIONS: [&str; 4] = ["5.0", "6.0", "7.0", "8.0"];

const NOT_PRIMARY: i32 = 10_107;
/// The label of errors behind which a change stream can go on.
const RESUMABLE: &str = "ResumableChangeStreamError";

/// What is done about a command.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// It is refused, by this answer.
    Refuse(Document),
    /// It is carried out, and this is the answer.
    Say(Document),
    /// The connection ends before it is carried out.
    CutBefore,
    /// The connection ends behind it, without an answer.
    CutAfter,
}

/// The refusal by a code, with labels.
pub(crate) fn refusal(code: i32, name: &str, labels: &[&str]) -> Document {
    let labels: Vec<Bson> = labels.iter().map(|label| Bson::from(*label)).collect();
    let mut answer = doc! { "ok": 0.0, "errmsg": name, "code": code, "codeName": name };
    if !labels.is_empty() {
        answer.insert("errorLabels", labels);
    }
    answer
}

/// See the module.
pub(crate) struct Replica {
    address: String,
    database: String,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: String,
    hello: Document,
    /// The addresses of its two servers, and which one is the primary.
    hosts: Mutex<Vec<String>>,
    primary: AtomicUsize,
    /// Counts what a driver is to hear of.
    counter: AtomicI64,
    rules: Mutex<VecDeque<Rule>>,
    commands: Mutex<Vec<Document>>,
    transactions: Transactions,
    streams: Streams,
    changed: (Mutex<()>, Condvar),
}

struct Rule {
    command: String,
    /// How many of those commands are let pass.
    passes: usize,
    act: Act,
}

impl Replica {
    /// A replica set of this version in front of the database of a URL.
    pub(crate) fn of(version: &str, url: &str) -> Self {
        let (host, database) = url["mongodb://".len()..].split_once('/').unwrap();
        let path = format!("{}/tests/data/hello-{version}.json", env!("CARGO_MANIFEST_DIR"));
        let hello = std::fs::read_to_string(path).unwrap();
        let Bson::Document(mut hello) = serde_json::from_str(&hello).unwrap() else { panic!() };
        hello.remove("_about");
        let shared = Arc::new(Shared {
            upstream: host.to_owned(),
            hello,
            hosts: Mutex::default(),
            primary: AtomicUsize::new(0),
            counter: AtomicI64::new(6),
            rules: Mutex::default(),
            commands: Mutex::default(),
            transactions: Transactions::new(host),
            streams: Streams::default(),
            changed: Default::default(),
        });
        let address = Shared::listen(&shared);
        Shared::listen(&shared);
        Self { address, database: database.to_owned(), shared }
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("mongodb://{}/{}?replicaSet=rs0", self.address, self.database)
    }

    /// Has the second server become the primary. The first does nothing any
    /// more but say so.
    pub(crate) fn elect(&self) {
        self.shared.primary.store(1, Ordering::SeqCst);
        self.shared.counter.fetch_add(1, Ordering::SeqCst);
        self.shared.changed.1.notify_all();
    }

    /// Does something about a command of this name, behind so many that pass.
    pub(crate) fn on(&self, command: &str, passes: usize, act: Act) {
        let rule = Rule { command: command.to_owned(), passes, act };
        self.shared.rules.lock().unwrap().push_back(rule);
    }

    /// How many rules have not been come to.
    pub(crate) fn rules_left(&self) -> usize {
        self.shared.rules.lock().unwrap().len()
    }

    /// The commands of this name that came; forgets them all.
    pub(crate) fn commands(&self, name: &str) -> Vec<Document> {
        let all = std::mem::take(&mut *self.shared.commands.lock().unwrap());
        all.into_iter().filter(|command| name_of(command) == name).collect()
    }

    /// All commands that came in transactions, and their ends; forgets them.
    pub(crate) fn transaction_commands(&self) -> Vec<Document> {
        let all = std::mem::take(&mut *self.shared.commands.lock().unwrap());
        all.into_iter().filter(|command| command.contains_key("autocommit")).collect()
    }

    /// What broke the protocol's rules.
    pub(crate) fn breaches(&self) -> Vec<String> {
        self.shared.transactions.breaches()
    }

    /// True if no transaction is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.transactions.is_idle()
    }

    /// Tells those that listen of an event in the database.
    pub(crate) fn tell(&self, operation: &str, collection: &str) {
        let mut namespace = doc! { "db": &self.database };
        if !collection.is_empty() {
            namespace.insert("coll", collection);
        }
        self.shared.streams.tell(doc! { "operationType": operation, "ns": namespace });
    }

    /// How many change streams were opened.
    pub(crate) fn streams_opened(&self) -> usize {
        self.shared.streams.opened().len()
    }

    /// The stages by which change streams were opened, in their order.
    pub(crate) fn streams(&self) -> Vec<Document> {
        self.shared.streams.opened()
    }

    /// The token of the event that was told last.
    pub(crate) fn last_token(&self) -> Document {
        self.shared.streams.last_token()
    }
}

/// The name of a command: its first member's.
fn name_of(command: &Document) -> &str {
    command.keys().next().map_or("", String::as_str)
}

/// What a rule calls a command: those of change streams have names of their own.
fn called(command: &Document, streams: &Streams) -> String {
    match name_of(command) {
        "aggregate" if stream::stage(command).is_some() => "$changeStream".to_owned(),
        "getMore" if streams.has(command) => "getMore of a stream".to_owned(),
        name => name.to_owned(),
    }
}

impl Shared {
    /// Begins to serve another address; gives it.
    fn listen(shared: &Arc<Self>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        shared.hosts.lock().unwrap().push(address.clone());
        let (shared, own) = (Arc::clone(shared), address.clone());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (shared, own) = (Arc::clone(&shared), own.clone());
                thread::spawn(move || shared.serve(client, &own));
            }
        });
        address
    }

    /// The address of the primary.
    fn primary(&self) -> String {
        self.hosts.lock().unwrap()[self.primary.load(Ordering::SeqCst)].clone()
    }

    /// Serves a connection to its end.
    fn serve(&self, mut client: TcpStream, own: &str) {
        let Ok(mut server) = TcpStream::connect(&self.upstream) else { return };
        while let Ok(message) = message::read(&mut client) {
            let Some(answer) = self.answer(&message, &mut server, own) else { break };
            if message::write(&mut client, &answer, message.number).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    }

    /// The answer to a command; none if the connection is to end.
    fn answer(&self, message: &Message, server: &mut TcpStream, own: &str) -> Option<Document> {
        let command = &message.body;
        if matches!(name_of(command), "hello" | "isMaster" | "ismaster") {
            return Some(self.hello(command, own));
        }
        // Reads from the second one are let pass, though it is no primary yet.
        if self.primary.load(Ordering::SeqCst) > 0 && self.primary() != own {
            let mut gone = refusal(NOT_PRIMARY, "NotWritablePrimary", &[RESUMABLE]);
            gone.insert("topologyVersion", self.topology());
            return Some(gone);
        }
        self.commands.lock().unwrap().push(command.clone());
        let act = self.rule(&called(command, &self.streams));
        match act {
            None => self.carry_out(command, server),
            Some(Act::Say(answer)) => self.carry_out(command, server).map(|_| answer),
            Some(Act::CutBefore) => None,
            Some(Act::CutAfter) => {
                self.carry_out(command, server);
                None
            }
            Some(Act::Refuse(mut answer)) => {
                self.transactions.refused(command);
                if answer.get_i32("code").is_ok_and(|code| code == NOT_PRIMARY) {
                    // A driver that knows of an older state asks what it is now.
                    self.counter.fetch_add(1, Ordering::SeqCst);
                    answer.insert("topologyVersion", self.topology());
                    self.changed.1.notify_all();
                }
                Some(answer)
            }
        }
    }

    fn carry_out(&self, command: &Document, server: &mut TcpStream) -> Option<Document> {
        if let Some(answer) = self.streams.answer(command) {
            return Some(answer);
        }
        self.transactions.answer(command, server).ok()
    }

    /// What is to be done about a command, if it is come to.
    fn rule(&self, command: &str) -> Option<Act> {
        let mut rules = self.rules.lock().unwrap();
        let at = rules.iter().position(|rule| rule.command == command)?;
        match rules[at].passes {
            0 => rules.remove(at).map(|rule| rule.act),
            _ => {
                rules[at].passes -= 1;
                None
            }
        }
    }

    fn topology(&self) -> Document {
        let mut topology = self.hello.get_document("topologyVersion").unwrap().clone();
        topology.insert("counter", self.counter.load(Ordering::SeqCst));
        topology
    }

    /// What a server says of itself: at once, or when there is something new.
    fn hello(&self, command: &Document, own: &str) -> Document {
        let known = command.get_document("topologyVersion").and_then(|it| it.get_i64("counter"));
        let most_ms = number(command, "maxAwaitTimeMS");
        if known.is_ok_and(|known| known == self.counter.load(Ordering::SeqCst)) {
            let (lock, changed) = &self.changed;
            let most = Duration::from_millis(most_ms.unsigned_abs());
            drop(changed.wait_timeout(lock.lock().unwrap(), most));
        }
        let (mut hello, hosts) = (self.hello.clone(), self.hosts.lock().unwrap().clone());
        let (primary, term) = (self.primary(), 1 + self.primary.load(Ordering::SeqCst));
        let is_primary = primary == own;
        hello.insert("topologyVersion", self.topology());
        hello.insert("me", own);
        hello.insert("primary", primary);
        hello.insert("isWritablePrimary", is_primary);
        hello.insert("secondary", !is_primary);
        match is_primary {
            true => hello.insert("electionId", ObjectId::parse_str(elected(term)).unwrap()),
            false => hello.remove("electionId"),
        };
        hello.insert("hosts", hosts);
        hello
    }
}

/// The number of an election: later ones are greater.
fn elected(number: usize) -> String {
    format!("7fffffff{number:016x}")
}

fn number(document: &Document, name: &str) -> i64 {
    match document.get(name) {
        Some(Bson::Int32(value)) => i64::from(*value),
        Some(Bson::Int64(value)) => *value,
        Some(Bson::Double(value)) => *value as i64,
        _ => 0,
    }
}
