//! Who may call what, and whose instance answers them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use marmota_auth::{Auth, Settings, models};
use marmota_derive::service;
use marmota_http::{Metrics, RunningServer, Server};
use marmota_memory::Memory;
use marmota_model::{ErrorKind, Result};
use marmota_service::{Call, Client, Lifetime, Services, Subscribers};
use marmota_store::Store;
use marmota_store::meter::Metering;
use marmota_store::rights::Grant;
use serde_json::{Value, json};

use crate::calling::{agent, url};
use crate::proxy::Proxy;

macro_rules! witness {
    ($name:ident, $service:literal) => {
        #[service(name = $service)]
        trait $name {
            async fn number(&self) -> Result<usize>;
            async fn caller(&self) -> Result<String>;
        }

        impl $name for One {
            async fn number(&self) -> Result<usize> {
                Ok(self.0)
            }

            async fn caller(&self) -> Result<String> {
                Ok(Call::current().unwrap().caller().map_or("nobody".into(), |it| it.name.clone()))
            }
        }
    };
}

struct One(usize);

fn one(_: &Call) -> Result<One> {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    Ok(One(NEXT.fetch_add(1, Ordering::Relaxed)))
}

witness!(OfSession, "of_session");
witness!(OfUser, "of_user");
witness!(OfGroup, "of_group");

const PASSWORD: &str = "correct horse battery";

fn served(settings: Settings) -> (Auth, RunningServer) {
    let store = models(Store::builder(Memory::new())).open().unwrap();
    let auth = Auth::new(&store, settings.password_cost(8, 1)).unwrap();
    let staff = ["staff".to_owned()];
    auth.set_group("staff", &[Grant::call("of_group")]).unwrap();
    for (name, groups) in [("ann", &staff[..]), ("bob", &staff[..]), ("cy", &[])] {
        let (_, token) = auth.add_user(name, groups, false).unwrap();
        auth.set_password(name, &token, PASSWORD, None).unwrap();
    }
    let services = Services::new()
        .auth(&auth)
        .service(OfSessionService::per(Lifetime::Session, one))
        .and_then(|services| services.service(OfUserService::per(Lifetime::User, one)))
        .and_then(|services| services.service(OfGroupService::per(Lifetime::Group, one)))
        .unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    (auth, server.start(services.router()).unwrap())
}

fn token(auth: &Auth, name: &str) -> String {
    auth.login(name, PASSWORD, None).unwrap().token
}

fn call(server: &RunningServer, token: Option<&str>, path: &str) -> (u16, Value) {
    let mut request = agent().post(url(server, &format!("/api/{path}")));
    if let Some(token) = token {
        request = request.header("Authorization", format!("Bearer {token}"));
    }
    let mut answer = request.send_empty().unwrap();
    (answer.status().as_u16(), answer.body_mut().read_json().unwrap())
}

fn everyone() -> Settings {
    Settings::default().everyone([Grant::call("of_session"), Grant::call("of_user.number")])
}

#[test]
fn each_session_user_and_group_has_its_own_instance() {
    let (auth, server) = served(everyone());
    let number = |token: &str, path: &str| {
        let (status, body) = call(&server, Some(token), path);
        assert_eq!(status, 200, "{path} {body}");
        body["result"].as_u64().unwrap()
    };
    let [ann, again, bob] = ["ann", "ann", "bob"].map(|name| token(&auth, name));
    let of_session = |token: &str| number(token, "of_session/number");
    assert_eq!(of_session(&ann), of_session(&ann));
    assert_ne!(of_session(&ann), of_session(&again));
    let of_user = |token: &str| number(token, "of_user/number");
    assert_eq!(of_user(&ann), of_user(&again));
    assert_ne!(of_user(&ann), of_user(&bob));
    let of_group = |token: &str| number(token, "of_group/number");
    assert_eq!(of_group(&ann), of_group(&bob));
    let (_, name) = call(&server, Some(&bob), "of_session/caller");
    assert_eq!(name["result"], "bob");
}

#[test]
fn who_has_logged_out_is_not_let_in_again() {
    let (auth, server) = served(everyone());
    let proxy = Proxy::net(&server.addresses()[0].to_string());
    let clients = ["http", "ws"].map(|scheme| {
        let url = format!("{scheme}://{}/api", proxy.address);
        let token = token(&auth, "ann");
        (Client::builder(&url).token(&token).connect().unwrap(), token)
    });
    for (client, token) in clients {
        futures_lite::future::block_on(async {
            let stub = OfSessionClient::new(&client.clone().deadline(Duration::MAX)).await.unwrap();
            let number = stub.number().await.unwrap();
            proxy.cut();
            // The session is the login's, by whatever connection.
            let again = loop {
                match stub.number().await {
                    Ok(again) => break again,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Lost),
                }
            };
            assert_eq!(again, number);
            auth.logout(&auth.authenticate(&token).run().unwrap()).unwrap();
            let error = stub.number().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
            proxy.cut();
            // Told at once, though it would wait for ever.
            let error = loop {
                match stub.number().await {
                    Err(error) if error.kind() == ErrorKind::Denied => break error,
                    Err(error) => {
                        let kinds = [ErrorKind::Lost, ErrorKind::Unauthenticated];
                        assert!(kinds.contains(&error.kind()), "{error}");
                    }
                    Ok(_) => panic!("a call of nobody's was answered"),
                }
            };
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert!(error.message().contains("401"), "{error}");
        });
    }
}

#[service]
trait Paper {
    async fn subscribe(&self) -> Result<bool>;
}

#[service]
trait Reader {
    async fn read(&self) -> Result<()>;
}

struct Press(Arc<Subscribers<ReaderClient>>);

impl Paper for Press {
    async fn subscribe(&self) -> Result<bool> {
        self.0.add().await
    }
}

struct Deaf;

impl Reader for Deaf {
    async fn read(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_subscriber_who_has_logged_out_is_told_nothing() {
    let store = models(Store::builder(Memory::new())).open().unwrap();
    let settings = Settings::default().everyone([Grant::call("paper")]).password_cost(8, 1);
    let auth = Auth::new(&store, settings).unwrap();
    let tokens = ["ann", "bob"].map(|name| {
        let (_, once) = auth.add_user(name, &[], false).unwrap();
        auth.set_password(name, &once, PASSWORD, None).unwrap();
        token(&auth, name)
    });
    let readers = Arc::new(Subscribers::new());
    let services = Services::new().auth(&auth);
    let services = services.service(PaperService::shared(Press(Arc::clone(&readers)))).unwrap();
    let server =
        Server::bind("127.0.0.1:0").unwrap().listeners(1).start(services.router()).unwrap();
    let offered = Services::new().service(ReaderService::shared(Deaf)).unwrap();
    let url = format!("ws://{}/api", server.addresses()[0]);
    let kept = tokens.each_ref().map(|token| {
        let client = Client::connect_as(&url, token, &offered).unwrap();
        futures_lite::future::block_on(async {
            assert!(PaperClient::new(&client).await.unwrap().subscribe().await.unwrap());
        });
        client
    });
    let told = || {
        let tell = readers.notify_all(|reader| async move { reader.read().await });
        futures_lite::future::block_on(tell)
    };
    assert_eq!(told(), 2);
    auth.logout(&auth.authenticate(&tokens[0]).run().unwrap()).unwrap();
    assert_eq!((told(), readers.away()), (1, 0));
    drop(kept);
    server.shutdown().unwrap();
}

#[test]
fn what_was_not_granted_is_refused_each_way() {
    let (auth, server) = served(everyone());
    let cy = token(&auth, "cy");
    assert_eq!(call(&server, Some(&cy), "of_user/number").0, 200);
    let (status, body) = call(&server, Some(&cy), "of_user/caller");
    assert_eq!(status, 403);
    assert_eq!(body["detail"], "cy may not call of_user.caller");
    assert_eq!(call(&server, Some(&cy), "of_group/number").0, 403);
    assert_eq!(call(&server, None, "of_user/number").0, 401);
    assert_eq!(call(&server, Some("none"), "of_user/number").0, 401);
    let rpc = json!({"jsonrpc":"2.0","method":"of_user.caller","id":1}).to_string();
    let request = agent().post(url(&server, "/api/-/rpc"));
    let request = request.header("Authorization", format!("Bearer {cy}"));
    let answer: Value = request.send(rpc).unwrap().body_mut().read_json().unwrap();
    assert_eq!(answer["error"]["data"]["kind"], "denied");
}

#[test]
fn nobody_calls_what_nobody_was_granted() {
    let (_, server) = served(everyone().anonymous([Grant::call("of_session.caller")]));
    assert_eq!(call(&server, None, "of_session/caller").0, 401, "a session of nobody's");
    assert_eq!(call(&server, None, "of_user/number").0, 401);
}

#[test]
fn calls_are_counted_by_method_with_those_that_fail() {
    let metrics = Metrics::new();
    let metering = Metering::default().slow_call(Duration::ZERO);
    let store = models(Store::builder(Memory::new()).metering(metering)).open().unwrap();
    let settings = everyone().password_cost(8, 1);
    let auth = Auth::new(&store, settings).unwrap();
    let (_, once) = auth.add_user("cy", &[], false).unwrap();
    auth.set_password("cy", &once, PASSWORD, None).unwrap();
    let services = Services::new()
        .auth(&auth)
        .service(OfUserService::per(Lifetime::User, one))
        .unwrap()
        .metrics(&metrics)
        .metrics(&metrics);
    let server =
        Server::bind("127.0.0.1:0").unwrap().listeners(1).start(services.router()).unwrap();
    let cy = token(&auth, "cy");
    for (path, status) in [("number", 200), ("number", 200), ("caller", 403)] {
        assert_eq!(call(&server, Some(&cy), &format!("of_user/{path}")).0, status);
    }
    let done = services.activity();
    let of = |name: &str| {
        let one = done.iter().find(|one| one.method == name).unwrap();
        (one.done.count, one.done.errors)
    };
    assert_eq!((done.len(), of("of_user.number"), of("of_user.caller")), (2, (2, 0), (1, 1)));
    let text = metrics.text();
    let kind = "# TYPE marmota_service_call_seconds histogram";
    assert_eq!(text.matches(kind).count(), 1, "once, although they were added twice: {text}");
    let line = "marmota_service_call_seconds_count{method=\"of_user.number\"} 2";
    assert!(text.lines().any(|one| one == line), "{text}");
    let slow = store.activity().unwrap().slow;
    let calls: Vec<_> = slow.iter().filter(|call| call.what == "of_user.number").collect();
    assert_eq!(calls.len(), 2, "{slow:?}");
    assert_eq!(calls[0].who.as_deref(), Some("cy"));
}
