//! Sign-up, invitations, passwords and addresses by mail, and attacks on each.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use marmota_auth::{Auth, LoginClient, SecurityEvent, Settings, SignUpPolicy, User};
use marmota_jobs::{JobAdmin, JobQuery, Jobs, Worker, WorkerOptions};
use marmota_mail::{AccountMails, CaughtMail, MailCatcher, SmtpSender, Templates};
use marmota_model::{Error, ErrorKind, Timestamp};
use marmota_store::{Store, StoreBuilder};

use crate::databases::databases;

const PASSWORD: &str = "correct horse battery";

struct Program {
    store: Store,
    auth: Auth,
    catcher: MailCatcher,
    worker: Option<Worker>,
    /// Microseconds that the clock of accounts is ahead.
    ahead: Arc<AtomicI64>,
    events: Arc<Mutex<Vec<SecurityEvent>>>,
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.stop().unwrap();
        }
    }
}

impl Program {
    fn on(builder: StoreBuilder, settings: Settings) -> Self {
        let catcher = MailCatcher::start().unwrap();
        let store = marmota_jobs::models(marmota_auth::models(builder)).open().unwrap();
        let ahead = Arc::new(AtomicI64::new(0));
        let clock = Arc::clone(&ahead);
        let events = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&events);
        let settings = settings
            .mailer(AccountMails)
            .account_url("https://shop.example.org/account")
            .password_cost(64, 1)
            .clock(move || {
                let now = Timestamp::now().micros() + clock.load(Ordering::SeqCst);
                Timestamp::from_micros(now).unwrap()
            })
            .listener(move |event: &SecurityEvent| keeps.lock().unwrap().push(event.clone()));
        let auth = Auth::new(&store, settings).unwrap();
        let sender = SmtpSender::new(catcher.url(), "Shop <shop@example.org>").unwrap();
        let jobs = Jobs::new(&store);
        let jobs = AccountMails::register(jobs, &auth, &sender, &Templates::new("Shop")).unwrap();
        let worker = Some(jobs.start(WorkerOptions::new()).unwrap());
        Self { store, auth, catcher, worker, ahead, events }
    }

    fn mail(&self, number: usize) -> CaughtMail {
        self.catcher.mail(number).unwrap()
    }

    fn advance(&self, minutes: u64) {
        let time = Duration::from_secs(minutes * 60);
        self.ahead.fetch_add(i64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }

    /// Waits until all jobs have ended.
    fn settle(&self) {
        let admin = JobAdmin::new(&self.store);
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            let jobs = admin.list(&JobQuery::default()).run().unwrap();
            if jobs.iter().all(|job| job.state.is_finished()) {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "{jobs:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Makes an account by mail, and returns its id.
    fn sign_up(&self, email: &str) -> i64 {
        let before = self.catcher.count();
        self.auth.request_sign_up(email, "en", None).unwrap();
        let token = self.mail(before).token();
        self.auth.join(&token, None, PASSWORD, None).unwrap()
    }

    fn reported(&self, is_it: impl Fn(&SecurityEvent) -> bool) -> bool {
        self.events.lock().unwrap().iter().any(is_it)
    }
}

fn open() -> Settings {
    Settings::default().sign_up(SignUpPolicy::Open).login_links(true)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind) {
    assert_eq!(result.unwrap_err().kind(), kind);
}

/// Returns the program on each engine in turn.
fn programs(settings: impl Fn() -> Settings) -> impl Iterator<Item = Program> {
    databases().map(move |database| Program::on(database.builder(), settings()))
}

#[test]
fn a_person_signs_up_by_mail() {
    for program in programs(open) {
        let auth = &program.auth;
        auth.request_sign_up("Ann@Example.org", "de-AT,de;q=0.9,en", None).unwrap();
        let mail = program.mail(0);
        assert_eq!(mail.to, "ann@example.org");
        assert!(mail.text.contains("Ihr Konto bei Shop anlegen"), "{}", mail.text);
        assert!(mail.text.contains("https://shop.example.org/account#/join/mt_"), "{}", mail.text);
        let token = mail.token();
        refused(auth.join(&token, None, "short", None), ErrorKind::Invalid);
        refused(auth.join(&token, Some("bob@example.org"), PASSWORD, None), ErrorKind::Invalid);
        let id = auth.join(&token, Some("ann"), PASSWORD, None).unwrap();
        let user = program.store.get::<User>(id).run().unwrap();
        assert_eq!((&*user.name, user.email.as_deref()), ("ann", Some("ann@example.org")));
        for name in ["ann", "ann@example.org", "ANN@example.org"] {
            assert_eq!(auth.login(name, PASSWORD, None).unwrap().user, id, "{name}");
        }
        assert!(program.reported(|event| matches!(event, SecurityEvent::SignedUp { .. })));
    }
}

#[test]
fn a_token_works_once_for_its_purpose_until_its_end() {
    for program in programs(open) {
        let auth = &program.auth;
        let ann = program.sign_up("ann@example.org");
        auth.request_reset("ann@example.org", "", None).unwrap();
        let reset = program.mail(1).token();
        auth.request_sign_up("bob@example.org", "", None).unwrap();
        let join = program.mail(2).token();

        // Not for another purpose.
        refused(auth.join(&reset, None, PASSWORD, None), ErrorKind::Unauthenticated);
        refused(auth.reset_password(&join, PASSWORD, None), ErrorKind::Unauthenticated);
        let client = LoginClient::default();
        refused(auth.login_with_link(&reset, None, client), ErrorKind::Unauthenticated);
        refused(auth.confirm_address(&reset, None), ErrorKind::Unauthenticated);
        refused(
            auth.set_password("ann@example.org", &reset, PASSWORD, None),
            ErrorKind::Unauthenticated,
        );
        // Not guessed.
        let (start, last) = reset.split_at(reset.len() - 1);
        let guess = format!("{start}{}", if last == "A" { "Q" } else { "A" });
        refused(auth.reset_password(&guess, PASSWORD, None), ErrorKind::Unauthenticated);
        refused(auth.reset_password("", PASSWORD, None), ErrorKind::Unauthenticated);
        // Once, and it ends the sessions.
        let session = auth.login("ann@example.org", PASSWORD, None).unwrap();
        auth.reset_password(&reset, "another password", None).unwrap();
        assert!(auth.authenticate(&session.token).run().is_err());
        refused(auth.reset_password(&reset, PASSWORD, None), ErrorKind::Unauthenticated);
        assert_eq!(auth.login("ann@example.org", "another password", None).unwrap().user, ann);
        // Not after its end.
        auth.request_reset("ann@example.org", "", None).unwrap();
        let reset = program.mail(3).token();
        program.advance(61);
        refused(auth.reset_password(&reset, PASSWORD, None), ErrorKind::Unauthenticated);
        refused(auth.join(&join, None, PASSWORD, None), ErrorKind::Unauthenticated);
        // Each of them is recorded.
        let refused = auth.security_events(None, Some("link-refused")).unwrap();
        assert_eq!(refused.len(), 9);
    }
}

#[test]
fn two_requests_with_one_token_make_one_account() {
    for program in programs(open) {
        program.auth.request_sign_up("ann@example.org", "", None).unwrap();
        let token = program.mail(0).token();
        let joined: Vec<_> = std::thread::scope(|scope| {
            let join = |number| {
                let (auth, token) = (&program.auth, &token);
                scope.spawn(move || auth.join(token, Some(&format!("ann{number}")), PASSWORD, None))
            };
            let threads: Vec<_> = (0..8).map(join).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(joined.iter().filter(|result| result.is_ok()).count(), 1, "{joined:?}");
    }
}

#[test]
fn requests_do_not_reveal_accounts() {
    for program in programs(open) {
        let auth = &program.auth;
        program.sign_up("ann@example.org");
        for email in ["ann@example.org", "eve@example.org"] {
            auth.request_reset(email, "", None).unwrap();
            auth.request_login_link(email, "", None).unwrap();
            auth.request_sign_up(email, "", None).unwrap();
        }
        program.settle();
        // Ann got a reset, a login and a hint; Eve only a link to sign up.
        let mails: Vec<_> = (1..5).map(|number| program.mail(number)).collect();
        assert_eq!(program.catcher.count(), 5);
        let of = |to: &str| mails.iter().filter(|mail| mail.to == to).collect::<Vec<_>>();
        assert_eq!((of("ann@example.org").len(), of("eve@example.org").len()), (3, 1));
        assert!(of("ann@example.org").iter().any(|mail| mail.text.contains("has an account")));
    }
}

#[test]
fn tokens_are_stored_as_hashes_only() {
    for program in programs(open) {
        program.auth.request_sign_up("ann@example.org", "", None).unwrap();
        let token = program.mail(0).token();
        let admin = JobAdmin::new(&program.store);
        let jobs = admin.list(&JobQuery::default()).run().unwrap();
        assert!(!jobs.is_empty() && jobs.iter().all(|job| !job.input.contains("mt_")));
        let table = program.store.table("marmota_account_link").unwrap();
        let links = program.store.list_records(&table).run().unwrap();
        assert_eq!(links.len(), 1);
        assert!(!format!("{:?}", links[0].values()).contains(&token));
    }
}

#[test]
fn the_policy_decides_who_signs_up() {
    let domains = SignUpPolicy::Domains(vec!["example.org".into()]);
    for program in programs(|| Settings::default().sign_up(domains.clone())) {
        refused(program.auth.request_sign_up("eve@evil.net", "", None), ErrorKind::Denied);
        refused(program.auth.request_sign_up("no address", "", None), ErrorKind::Invalid);
        program.sign_up("ann@example.org");
        refused(program.auth.request_login_link("ann@example.org", "", None), ErrorKind::Denied);
    }
    for closed in programs(Settings::default) {
        refused(closed.auth.request_sign_up("ann@example.org", "", None), ErrorKind::Denied);
        refused(closed.auth.invite("ann@example.org", &[], ""), ErrorKind::Denied);
    }
}

#[test]
fn an_invitation_is_for_its_address_until_it_is_revoked() {
    for program in programs(|| Settings::default().sign_up(SignUpPolicy::Invited)) {
        let auth = &program.auth;
        auth.set_group("staff", &[]).unwrap();
        refused(auth.invite("ann@example.org", &["missing".to_owned()], ""), ErrorKind::Invalid);
        auth.invite("ann@example.org", &["staff".to_owned()], "").unwrap();
        let token = program.mail(0).token();
        assert_eq!(auth.invitations().unwrap()[0].email, "ann@example.org");
        // The account gets the address of the invitation, whatever name is entered.
        refused(auth.join(&token, Some("eve@evil.net"), PASSWORD, None), ErrorKind::Invalid);
        assert_eq!(auth.security_events(None, Some("link-refused")).unwrap().len(), 1);
        let id = auth.join(&token, Some("eve"), PASSWORD, None).unwrap();
        let user = program.store.get::<User>(id).run().unwrap();
        assert_eq!((user.email.as_deref(), &*user.groups.0[0]), (Some("ann@example.org"), "staff"));
        assert!(auth.invitations().unwrap().is_empty());

        let id = auth.invite("bob@example.org", &[], "").unwrap();
        let token = program.mail(1).token();
        auth.revoke_invitation(id).unwrap();
        refused(auth.join(&token, None, PASSWORD, None), ErrorKind::Unauthenticated);
    }
}

#[test]
fn an_address_changes_once_it_is_confirmed() {
    for program in programs(open) {
        let auth = &program.auth;
        let ann = program.sign_up("ann@example.org");
        program.sign_up("bob@example.org");
        let email = |address| auth.request_address(ann, PASSWORD, address, "", None);
        refused(
            auth.request_address(ann, "wrong", "new@example.org", "", None),
            ErrorKind::Unauthenticated,
        );
        // The address of another user gets no mail.
        email("bob@example.org").unwrap();
        program.settle();
        assert_eq!(program.catcher.count(), 2);
        auth.request_reset("ann@example.org", "", None).unwrap();
        let reset = program.mail(2).token();
        email("new@example.org").unwrap();
        let mail = program.mail(3);
        assert_eq!(mail.to, "new@example.org");
        auth.login("ann@example.org", PASSWORD, None).unwrap();
        auth.confirm_address(&mail.token(), None).unwrap();
        auth.login("new@example.org", PASSWORD, None).unwrap();
        refused(auth.login("ann@example.org", PASSWORD, None), ErrorKind::Unauthenticated);
        // The old address is notified, and its links do not work any more.
        assert_eq!(program.mail(4).to, "ann@example.org");
        refused(auth.reset_password(&reset, PASSWORD, None), ErrorKind::Unauthenticated);
    }
}

#[test]
fn a_link_logs_in_once() {
    for program in programs(open) {
        let auth = &program.auth;
        let ann = program.sign_up("ann@example.org");
        auth.request_login_link("ann@example.org", "", None).unwrap();
        let token = program.mail(1).token();
        let client = LoginClient { device: Some("phone"), ..LoginClient::default() };
        let login = auth.login_with_link(&token, None, client).unwrap();
        assert_eq!(login.user, ann);
        refused(auth.login_with_link(&token, None, client), ErrorKind::Unauthenticated);
        auth.request_login_link("ann@example.org", "", None).unwrap();
        let token = program.mail(2).token();
        program.advance(16);
        refused(auth.login_with_link(&token, None, client), ErrorKind::Unauthenticated);
    }
}

#[test]
fn mails_are_limited() {
    for program in programs(open) {
        let from = |last| Some(std::net::IpAddr::from([10, 0, 0, last]));
        for _ in 0..5 {
            program.auth.request_reset("ann@example.org", "", from(1)).unwrap();
        }
        refused(program.auth.request_reset("ann@example.org", "", from(1)), ErrorKind::Busy);
        program.auth.request_reset("bob@example.org", "", from(1)).unwrap();
        program.auth.request_reset("ann@example.org", "", from(2)).unwrap();
        // One receiver gets a bounded number of links, from however many clients.
        program.sign_up("eve@example.org");
        for last in 10..40 {
            program.auth.request_reset("eve@example.org", "", from(last)).unwrap();
        }
        program.settle();
        assert_eq!(program.catcher.count(), 1 + 10);
    }
}

#[test]
fn a_mail_that_was_refused_is_sent_again() {
    for program in programs(open) {
        program.catcher.refuse(1);
        program.auth.request_sign_up("ann@example.org", "", None).unwrap();
        let token = program.mail(0).token();
        program.auth.join(&token, None, PASSWORD, None).unwrap();
        let table = program.store.table("marmota_account_link").unwrap();
        assert!(program.store.list_records(&table).run().unwrap().is_empty());
    }
}

#[test]
fn a_removed_user_takes_their_links_along_and_the_id_is_not_used_again() {
    for program in programs(open) {
        let auth = &program.auth;
        let ann = program.sign_up("ann@example.org");
        auth.request_reset("ann@example.org", "", None).unwrap();
        let token = program.mail(1).token();
        refused(auth.delete_account(ann, "wrong", None, None), ErrorKind::Unauthenticated);
        auth.delete_account(ann, PASSWORD, None, None).unwrap();
        refused(auth.reset_password(&token, PASSWORD, None), ErrorKind::Unauthenticated);
        assert!(program.sign_up("ann@example.org") > ann);
    }
}
