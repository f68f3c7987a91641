//! Rights over every way to the rows: what a rule hides from REST is hidden
//! from a store in another process too, in each verb.

use marmota::auth::{Auth, Settings};
use marmota::http::{RunningServer, Server};
use marmota::prelude::*;
use marmota::remote::{Remote, Service};
use marmota::store::rights::{Grant, Right};

#[derive(Clone, Debug, Model, PartialEq)]
struct Note {
    id: i64,
    owner: i64,
    #[model(max = 40)]
    text: String,
    public: bool,
}

struct Guarded {
    auth: Auth,
    served: Store,
    service: Service,
    server: RunningServer,
}

impl Guarded {
    fn new(url: &str) -> Self {
        let builder = marmota::open(url).unwrap().model::<Note>().cache(1 << 20);
        let served = marmota::auth::models(builder).open().unwrap();
        let grants = [
            Grant::new("note", &[Right::Read]).rule("public = true"),
            Grant::new("note", &Right::ALL).rule("owner = @user.id"),
        ];
        let settings = Settings::default().everyone(grants).password_cost(8, 1);
        let auth = Auth::new(&served, settings).unwrap();
        let admitting = auth.clone();
        let service = Service::new(&served);
        let service = service.authenticate(move |_, credential| admitting.store_of(credential));
        let routes = rest::Api::new(&served).auth(&auth).router().nest("", service.router());
        let server = Server::bind("127.0.0.1:0").unwrap().listeners(2).start(routes).unwrap();
        Self { auth, served, service, server }
    }

    fn user(&self, name: &str) -> (i64, String) {
        let (id, once) = self.auth.add_user(name, &[], false).unwrap();
        self.auth.set_password(name, &once, "correct horse", None).unwrap();
        (id, self.auth.login(name, "correct horse", None).unwrap().token)
    }

    /// The service by each transport.
    fn remotes(&self) -> Vec<Remote> {
        let host = self.server.local_addr();
        let urls = [format!("http://{host}/api"), format!("ws://{host}/api")];
        let remotes = urls.iter().map(|url| Remote::from_url(url).unwrap());
        remotes.chain([Remote::in_process(&self.service)]).collect()
    }

    /// Stores of whoever has a token, by each transport.
    fn stores(&self, token: &str) -> Vec<Store> {
        let open = |remote: Remote| {
            Store::builder(remote.credential(token)).model::<Note>().open().unwrap()
        };
        self.remotes().into_iter().map(open).collect()
    }

    /// The status that REST gives for a row.
    fn rest(&self, id: i64, token: &str) -> u16 {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let url = format!("http://{}/api/note/{id}", self.server.local_addr());
        let asked = agent.get(url).header("Authorization", format!("Bearer {token}"));
        asked.call().unwrap().status().as_u16()
    }
}

fn note(owner: i64, public: bool) -> Note {
    Note { id: 0, owner, text: "…".to_owned(), public }
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn what_rest_denies_is_denied_to_a_store_elsewhere_in_each_verb() {
    for url in ["sqlite::memory:", "memory:"] {
        let guarded = Guarded::new(url);
        let ((ann, token), (bob, _)) = (guarded.user("ann"), guarded.user("bob"));
        let rows = [note(ann, false), note(bob, false), note(bob, true)];
        guarded.served.insert_many(&rows).run().unwrap();
        assert_eq!([1, 2, 3].map(|id| guarded.rest(id, &token)), [200, 404, 200]);
        for store in guarded.stores(&token) {
            let ids = |list: Vec<Note>| list.into_iter().map(|row| row.id).collect::<Vec<_>>();
            assert_eq!(store.get::<Note>(1).run().unwrap().owner, ann);
            assert_eq!(kind(store.get::<Note>(2).run()), ErrorKind::NotFound);
            assert_eq!(ids(store.list::<Note>().run().unwrap()), [1, 3]);
            let hidden = Note::OWNER.eq(bob).and(Note::PUBLIC.eq(false));
            assert!(store.list::<Note>().filter(hidden).run().unwrap().is_empty());
            assert_eq!(store.count::<Note>().run().unwrap(), 2);
            // Hidden, and seen but not hers.
            for (id, refused) in [(2, ErrorKind::NotFound), (3, ErrorKind::Denied)] {
                assert_eq!(kind(store.patch::<Note>(id).set(Note::PUBLIC, true).run()), refused);
                assert_eq!(kind(store.delete::<Note>(id).run()), refused);
                let mut batch = store.batch();
                batch.insert(&note(ann, false));
                batch.delete::<Note>(id);
                assert!(batch.all_or_nothing().run().is_err(), "{id}");
                let tried = store.transaction(|own| own.delete::<Note>(id).run());
                assert_eq!(kind(tried), refused);
            }
            assert_eq!(kind(store.insert(&note(bob, true)).run()), ErrorKind::Denied);
            assert_eq!(kind(store.insert_many(&[note(bob, true)]).run()), ErrorKind::Denied);
            assert_eq!(guarded.served.count::<Note>().run().unwrap(), 3, "nothing was done");
            let theirs = guarded.served.get::<Note>(2).run().unwrap();
            assert_eq!((theirs.owner, theirs.public), (bob, false));
        }
        for store in guarded.stores(&token) {
            let own = store.insert(&note(ann, false)).run().unwrap();
            store.delete::<Note>(own).run().unwrap();
        }
    }
}

#[test]
fn tables_of_accounts_are_not_found_by_stores_elsewhere() {
    for url in ["sqlite::memory:", "memory:"] {
        let guarded = Guarded::new(url);
        let (_, ann) = guarded.user("ann");
        let (_, once) = guarded.auth.add_user("amy", &[], true).unwrap();
        guarded.auth.set_password("amy", &once, "correct horse", None).unwrap();
        let amy = guarded.auth.login("amy", "correct horse", None).unwrap().token;
        let any = [Grant::new("*", &Right::ALL)];
        guarded.auth.set_group("all", &any).unwrap();
        let (_, once) = guarded.auth.add_user("cy", &["all".to_owned()], false).unwrap();
        guarded.auth.set_password("cy", &once, "correct horse", None).unwrap();
        let cy = guarded.auth.login("cy", "correct horse", None).unwrap().token;
        for token in [ann, amy, cy] {
            for remote in guarded.remotes() {
                let opened = Store::builder(remote.credential(token.clone()))
                    .model::<Note>()
                    .model::<marmota::auth::User>()
                    .open();
                assert_eq!(kind(opened), ErrorKind::NotFound);
            }
        }
    }
}

#[test]
fn a_transaction_needs_a_right_to_write() {
    let guarded = Guarded::new("sqlite::memory:");
    guarded.auth.set_group("readers", &[Grant::new("note", &[Right::Read])]).unwrap();
    let settings = Settings::default().anonymous([Grant::new("note", &[Right::Read])]);
    let auth = Auth::new(&guarded.served, settings.password_cost(8, 1)).unwrap();
    let (_, once) = auth.add_user("dan", &["readers".to_owned()], false).unwrap();
    auth.set_password("dan", &once, "correct horse", None).unwrap();
    let dan = auth.login("dan", "correct horse", None).unwrap().token;
    let admitting = auth.clone();
    let service = Service::new(&guarded.served);
    let service = service.authenticate(move |_, credential| admitting.store_of(credential));
    let routes = service.router();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).start(routes).unwrap();
    for token in ["", &dan] {
        let remote = Remote::from_url(&format!("http://{}/api", server.local_addr())).unwrap();
        let remote = remote.credential(token);
        let store = Store::builder(remote).model::<Note>().open().unwrap();
        let error = store.begin_run().unwrap_err();
        let denied = [ErrorKind::Denied, ErrorKind::Unauthenticated];
        assert!(denied.contains(&error.kind()), "{error:?}");
        assert!(error.message().contains("right to write"), "{error}");
        // What is refused holds nothing: others write at once, and it reads.
        guarded.served.insert(&note(1, true)).run().unwrap();
        assert!(store.count::<Note>().run().unwrap() > 0);
    }
    // Who may write something may begin.
    let (ann, token) = guarded.user("ann");
    for store in guarded.stores(&token) {
        let open = store.begin_run().unwrap();
        open.insert(&note(ann, true)).run().unwrap();
        open.commit().run().unwrap();
    }
}

#[test]
fn a_connection_that_stands_is_asked_again_for_each_operation() {
    let guarded = Guarded::new("sqlite::memory:");
    let (ann, token) = guarded.user("ann");
    guarded.served.insert(&note(ann, false)).run().unwrap();
    let stores = guarded.stores(&token);
    for store in &stores {
        assert!(store.get::<Note>(1).run().is_ok());
    }
    guarded.auth.logout_everywhere(ann).unwrap();
    for store in &stores {
        assert_eq!(kind(store.get::<Note>(1).run()), ErrorKind::Unauthenticated);
        assert_eq!(kind(store.insert(&note(ann, true)).run()), ErrorKind::Unauthenticated);
    }
    assert_eq!(guarded.served.count::<Note>().run().unwrap(), 1);
    // A group taken away: the next operation knows.
    let grants = [Grant::new("note", &[Right::Read])];
    guarded.auth.set_group("readers", &grants).unwrap();
    let (cy, once) = guarded.auth.add_user("cy", &["readers".to_owned()], false).unwrap();
    guarded.auth.set_password("cy", &once, "correct horse", None).unwrap();
    let token = guarded.auth.login("cy", "correct horse", None).unwrap().token;
    let stores = guarded.stores(&token);
    stores.iter().for_each(|store| assert_eq!(store.count::<Note>().run().unwrap(), 1));
    guarded.auth.change_user(cy, Some(&[]), None, None).unwrap();
    stores.iter().for_each(|store| assert_eq!(store.count::<Note>().run().unwrap(), 0));
}

#[test]
fn strangers_are_told_so_where_they_open() {
    let guarded = Guarded::new("memory:");
    for token in ["", "ms_none", "\u{e9}"] {
        for remote in guarded.remotes() {
            let opened = Store::builder(remote.credential(token)).model::<Note>().open();
            assert_eq!(kind(opened), ErrorKind::Unauthenticated, "{token}");
        }
    }
}
