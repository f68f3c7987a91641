//! Connections that break and are made anew by themselves: what becomes of calls,
//! and who is among the server's subscribers afterwards. Over all transports,
//! with connections cut by a proxy and servers that are started anew.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_lite::future::{block_on, poll_once};
use marmota_derive::service;
use marmota_http::{RunningServer, Server};
use marmota_model::{ErrorKind, Result};
use marmota_service::{Call, Client, Lifetime, Services, Subscribers};

use crate::proxy::Proxy;

#[service]
trait News {
    /// Which server answers.
    #[idempotent]
    async fn server(&self) -> Result<usize>;
    async fn subscribe(&self) -> Result<bool>;
    async fn unsubscribe(&self) -> Result<bool>;
    async fn print(&self, text: String) -> Result<usize>;
    /// Answers when the gate is opened.
    async fn wait(&self) -> Result<()>;
    /// As `wait`, and may take place twice.
    #[idempotent]
    async fn wait_again(&self) -> Result<()>;
    async fn session(&self) -> Result<Option<String>>;
}

#[service]
trait Reader {
    async fn read(&self, text: String) -> Result<()>;
}

/// Holds calls until a test lets them go; counts those that have come.
struct Gate {
    opened: (async_channel::Sender<()>, async_channel::Receiver<()>),
    come: AtomicUsize,
}

impl Gate {
    fn new() -> Arc<Self> {
        Arc::new(Self { opened: async_channel::unbounded(), come: AtomicUsize::new(0) })
    }

    async fn pass(&self) {
        self.come.fetch_add(1, Ordering::SeqCst);
        self.opened.1.recv().await.unwrap();
    }
}

struct Paper {
    number: usize,
    readers: Arc<Subscribers<ReaderClient>>,
    gate: Arc<Gate>,
}

impl News for Paper {
    async fn server(&self) -> Result<usize> {
        Ok(self.number)
    }

    async fn subscribe(&self) -> Result<bool> {
        self.readers.add().await
    }

    async fn unsubscribe(&self) -> Result<bool> {
        Ok(self.readers.remove())
    }

    async fn print(&self, text: String) -> Result<usize> {
        let text = &text;
        Ok(self.readers.notify_all(|reader| async move { reader.read(text.clone()).await }).await)
    }

    async fn wait(&self) -> Result<()> {
        self.gate.pass().await;
        Ok(())
    }

    async fn wait_again(&self) -> Result<()> {
        self.gate.pass().await;
        Ok(())
    }

    async fn session(&self) -> Result<Option<String>> {
        Ok(Call::current().and_then(|call| call.session().map(str::to_owned)))
    }
}

/// Keeps what it was told.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<String>>>);

impl Reader for Kept {
    async fn read(&self, text: String) -> Result<()> {
        self.0.lock().unwrap().push(text);
        Ok(())
    }
}

impl Kept {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A server, and what is behind its services.
struct Served {
    server: RunningServer,
    readers: Arc<Subscribers<ReaderClient>>,
    gate: Arc<Gate>,
}

fn serve(number: usize, at: &[&str], readers: Subscribers<ReaderClient>) -> Served {
    let (readers, gate) = (Arc::new(readers), Gate::new());
    let paper = Paper { number, readers: Arc::clone(&readers), gate: Arc::clone(&gate) };
    let services = Services::new().service(NewsService::shared(paper)).unwrap();
    let mut server = Server::bind(at[0]).unwrap();
    for more in &at[1..] {
        server = server.also_bind(more).unwrap();
    }
    Served { server: server.listeners(1).start(services.router()).unwrap(), readers, gate }
}

fn name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("@marmota-reconnecting-{}-{number}", std::process::id())
}

/// Waits for what comes by itself.
#[track_caller]
fn present(readers: &Subscribers<ReaderClient>) -> Vec<ReaderClient> {
    block_on(readers.present())
}

fn reach(case: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{case}: it does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A transport through a proxy.
#[derive(Clone, Copy, Debug)]
enum By {
    Unix,
    Http,
    WebSocket,
}

impl By {
    const ALL: [Self; 3] = [Self::Unix, Self::Http, Self::WebSocket];

    fn place(self) -> String {
        match self {
            Self::Unix => format!("unix:{}", name()),
            Self::Http | Self::WebSocket => "127.0.0.1:0".to_owned(),
        }
    }

    /// Where a server is reached that was bound there.
    fn address(self, place: &str, served: &Served) -> String {
        match self {
            Self::Unix => place.trim_start_matches("unix:").to_owned(),
            Self::Http | Self::WebSocket => served.server.addresses()[0].to_string(),
        }
    }

    fn proxy(self, to: &str) -> Proxy {
        match self {
            Self::Unix => Proxy::unix(to),
            Self::Http | Self::WebSocket => Proxy::net(to),
        }
    }

    fn url(self, proxy: &Proxy) -> String {
        match self {
            Self::Unix => format!("unix:{}", proxy.address),
            Self::Http => format!("http://{}/api", proxy.address),
            Self::WebSocket => format!("ws://{}/api", proxy.address),
        }
    }
}

/// A server, a proxy to it, and a client by that with what it is told.
struct Stand {
    by: By,
    served: Served,
    proxy: Proxy,
    client: Client,
    told: Kept,
}

impl Stand {
    fn new(by: By, readers: Subscribers<ReaderClient>) -> Self {
        let place = by.place();
        let served = serve(1, &[&place], readers);
        let proxy = by.proxy(&by.address(&place, &served));
        let told = Kept::default();
        let client = Self::client(by, &proxy, &told);
        Self { by, served, proxy, client, told }
    }

    fn client(by: By, proxy: &Proxy, told: &Kept) -> Client {
        let offered = Services::new().service(ReaderService::shared(told.clone())).unwrap();
        Client::builder(&by.url(proxy)).callbacks(&offered).connect().unwrap()
    }

    /// Another server takes this one's place, and knows nothing of it.
    fn start_anew(&mut self) {
        let place = self.by.place();
        let next = serve(2, &[&place], Subscribers::new());
        self.proxy.lead_to(&self.by.address(&place, &next));
        std::mem::replace(&mut self.served, next).server.shutdown().unwrap();
        self.proxy.cut();
    }
}

#[test]
fn a_subscriber_is_in_the_list_once_whatever_breaks() {
    for by in By::ALL {
        let mut stand = Stand::new(by, Subscribers::new());
        let news = block_on(NewsClient::new(&stand.client)).unwrap();
        let print = |text: &str| block_on(news.print(text.to_owned())).unwrap();
        assert!(block_on(news.subscribe()).unwrap(), "{by:?}");
        assert!(!block_on(news.subscribe()).unwrap(), "{by:?}: it is there already");
        assert_eq!((print("first"), stand.told.take()), (1, vec!["first".to_owned()]), "{by:?}");
        for round in 0..3 {
            let come = stand.proxy.accepted();
            stand.proxy.cut();
            reach("a new connection", || stand.proxy.accepted() > come);
            // Sent once this side is in the list again.
            let text = format!("{by:?} {round}");
            let told = loop {
                match block_on(news.print(text.clone())) {
                    Ok(told) => break told,
                    // It was sent when the connection was about to break.
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Lost, "{by:?}"),
                }
            };
            assert_eq!((told, stand.told.take()), (1, vec![text]), "{by:?}");
            assert_eq!(present(&stand.served.readers).len(), 1, "{by:?}");
        }
        stand.start_anew();
        reach("the other server", || block_on(news.server()).is_ok_and(|number| number == 2));
        assert_eq!((print("anew"), stand.told.take()), (1, vec!["anew".to_owned()]), "{by:?}");
        assert!(block_on(news.unsubscribe()).unwrap(), "{by:?}");
        stand.start_anew();
        reach("the third server", || stand.client.is_connected());
        let told = block_on(async {
            // The connection may still be the one that breaks.
            loop {
                match news.print("nobody".to_owned()).await {
                    Ok(told) => break told,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Lost, "{by:?}"),
                }
            }
        });
        assert_eq!((told, stand.told.take()), (0, Vec::new()), "{by:?}");
        stand.served.server.shutdown().unwrap();
    }
}

#[test]
fn who_does_not_come_back_is_forgotten() {
    for by in By::ALL {
        for (retain_for, kept) in [(Duration::from_secs(36_000), 1), (Duration::ZERO, 0)] {
            let stand = Stand::new(by, Subscribers::new().retain_for(retain_for));
            let news = block_on(NewsClient::new(&stand.client)).unwrap();
            assert!(block_on(news.subscribe()).unwrap());
            let readers = &stand.served.readers;
            assert_eq!((present(readers).len(), readers.away()), (1, 0), "{by:?}");
            stand.proxy.shut();
            reach("nobody is present", || present(readers).is_empty());
            assert_eq!(readers.away(), kept, "{by:?}");
            stand.proxy.open();
            reach("it has come back", || present(readers).len() == 1);
            assert_eq!(readers.away(), 0, "{by:?}: it is not kept twice");
            // Whoever goes on purpose is not waited for.
            drop((news, stand.client));
            reach("it has left", || present(readers).is_empty() && readers.away() == 0);
            stand.served.server.shutdown().unwrap();
        }
    }
}

#[test]
fn there_are_no_more_subscribers_than_there_may_be() {
    let stand = Stand::new(By::Http, Subscribers::new().subscribers_max(1));
    let other = Stand::client(By::WebSocket, &stand.proxy, &Kept::default());
    block_on(async {
        let [one, two] = [&stand.client, &other].map(|client| async move {
            let news = NewsClient::new(client).await.unwrap();
            news.subscribe().await.map(|_| news)
        });
        let news = one.await.unwrap();
        assert!(!news.subscribe().await.unwrap());
        let error = two.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert!(error.message().contains("`subscribers_max`"), "{error}");
        // A client that offers nothing cannot be told anything.
        let mute = Client::connect(&By::Http.url(&stand.proxy)).unwrap();
        let error = NewsClient::new(&mute).await.unwrap().subscribe().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    });
    let url = format!("http://{}/api/news/subscribe", stand.served.server.addresses()[0]);
    let agent = crate::calling::agent();
    let mut answer = agent.post(url).content_type("application/json").send("{}").unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    assert_eq!(answer.status(), 501, "{text}");
    assert!(text.contains("connect over a socket"), "{text}");
}

#[test]
fn a_call_that_was_sent_is_lost_and_one_that_was_not_waits() {
    for by in By::ALL {
        let stand = Stand::new(by, Subscribers::new());
        let gate = &stand.served.gate;
        block_on(async {
            let news = NewsClient::new(&stand.client).await.unwrap();
            let (mut lost, mut again) = (Box::pin(news.wait()), Box::pin(news.wait_again()));
            assert!(poll_once(&mut lost).await.is_none());
            assert!(poll_once(&mut again).await.is_none());
            reach("both are under way", || gate.come.load(Ordering::SeqCst) == 2);
            stand.proxy.shut();
            let error = lost.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Lost, "{by:?}");
            assert!(error.message().contains("may or may not have been executed"), "{error}");
            assert!(!stand.client.is_connected(), "{by:?}");
            // Nothing lets it in before its deadline.
            let hasty = stand.client.clone().deadline(Duration::from_millis(1));
            let error = NewsClient::new(&hasty).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{by:?}: {error}");
            assert!(error.message().contains("nothing was done"), "{error}");
            let mut waits = Box::pin(news.server());
            let mut given_up = Box::pin(news.wait());
            assert!(poll_once(&mut waits).await.is_none());
            assert!(poll_once(&mut given_up).await.is_none());
            drop(given_up);
            stand.proxy.open();
            assert_eq!(waits.await.unwrap(), 1, "{by:?}");
            // The one may take place twice and was sent again; the other, which nobody waits for, was
            // not sent.
            reach("it is sent again", || gate.come.load(Ordering::SeqCst) == 3);
            gate.opened.0.send(()).await.unwrap();
            again.await.unwrap();
        });
        stand.served.server.shutdown().unwrap();
    }
}

#[test]
fn a_session_of_nobodys_goes_on_and_a_stubs_instance_is_lost() {
    struct Count(AtomicUsize);
    impl Counter for Count {
        async fn add(&self) -> Result<usize> {
            Ok(self.0.fetch_add(1, Ordering::SeqCst) + 1)
        }
    }
    for lifetime in [Lifetime::Session, Lifetime::Stub] {
        let hosted = CounterService::per(lifetime, |_| Ok(Count(AtomicUsize::new(0))));
        let services = Services::new().service(hosted).unwrap();
        let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
        let server = server.start(services.router()).unwrap();
        let proxy = Proxy::net(&server.addresses()[0].to_string());
        let client = Client::connect(&By::WebSocket.url(&proxy)).unwrap();
        let other = Client::connect(&By::Http.url(&proxy)).unwrap();
        block_on(async {
            let counter = CounterClient::new(&client).await.unwrap();
            let others = CounterClient::new(&other).await.unwrap();
            assert_eq!((counter.add().await.unwrap(), others.add().await.unwrap()), (1, 1));
            proxy.shut();
            reach("it is cut", || !client.is_connected() && !other.is_connected());
            proxy.open();
            match lifetime {
                Lifetime::Session => assert_eq!(counter.add().await.unwrap(), 2),
                _ => {
                    let error = counter.add().await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Lost);
                    assert!(error.message().contains("create a new stub"), "{error}");
                    let anew = CounterClient::new(&client).await.unwrap();
                    assert_eq!(anew.add().await.unwrap(), 1);
                }
            }
        });
        server.shutdown().unwrap();
    }
}

#[service]
trait Counter {
    async fn add(&self) -> Result<usize>;
}

#[test]
fn who_is_not_let_in_again_is_told_at_once() {
    let stand = Stand::new(By::Http, Subscribers::new());
    let news = block_on(NewsClient::new(&stand.client)).unwrap();
    // Another server takes the place, which has no services.
    let other = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let other = other.start(marmota_http::Router::new()).unwrap();
    stand.proxy.lead_to(&other.addresses()[0].to_string());
    stand.proxy.cut();
    reach("it is cut", || !stand.client.is_connected());
    let error = block_on(news.server()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    assert!(error.message().contains("services are not served"), "{error}");
    stand.proxy.lead_to(&stand.served.server.addresses()[0].to_string());
    reach("the first is there again", || block_on(news.server()).is_ok());
}

#[test]
fn a_server_is_sought_no_longer_than_was_said() {
    let stand = Stand::new(By::Unix, Subscribers::new());
    let url = By::Unix.url(&stand.proxy);
    let client = Client::builder(&url).reconnect_for(Duration::ZERO).connect().unwrap();
    let news = block_on(NewsClient::new(&client)).unwrap();
    stand.proxy.shut();
    // No deadline is waited for.
    let error = loop {
        match block_on(news.session()) {
            Err(error) if error.kind() == ErrorKind::Refused => break error,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Lost, "{error}"),
            Ok(_) => {}
        }
    };
    assert!(error.message().contains("is closed"), "{error}");
}

#[test]
fn nobody_passes_for_another_by_what_is_seen() {
    let stand = Stand::new(By::Http, Subscribers::new());
    let news = block_on(NewsClient::new(&stand.client)).unwrap();
    let session = block_on(news.session()).unwrap().unwrap();
    let name = session.strip_prefix("client ").unwrap();
    let mut page =
        crate::web_sockets::Browser::open(&stand.served.server.addresses()[0].to_string());
    page.say(&serde_json::json!({"jsonrpc":"2.0","method":"-.client","params":[name]}));
    page.say(&serde_json::json!({"jsonrpc":"2.0","method":"news.session","id":1}));
    let seen = page.hear();
    assert_ne!(seen["result"], session, "{seen}");
}
