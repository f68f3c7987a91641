//! Security events as rows: what is kept, for how long, and how many of an attacker.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use marmota_auth::Auth;
use marmota_model::ErrorKind;

use super::{Clock, PASSWORD, memory, refused, settings, stores, user};

#[test]
fn events_are_kept_with_user_address_and_time() {
    for store in stores() {
        let clock = Clock::new();
        let auth = Auth::new(&store, clock.of(settings())).unwrap();
        let ann = user(&auth, "ann");
        let from = Some(IpAddr::from([192, 0, 2, 7]));
        refused(auth.login("ann", "not it", from), ErrorKind::Unauthenticated);
        auth.login("ann", PASSWORD, from).unwrap();
        let events = auth.security_events(None, None).unwrap();
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["logged-in", "login-failed", "password-set", "user-added"]);
        let login = &events[0];
        assert_eq!((login.user, login.address.as_deref()), (Some(ann), Some("192.0.2.7")));
        assert_eq!(login.detail.0["name"], "ann");
        // No event has a secret.
        let text = format!("{events:?}");
        assert!(!text.contains(PASSWORD) && !text.contains("not it"));
        let failed = auth.security_events(None, Some("login-failed")).unwrap();
        assert_eq!(failed.len(), 1);
        let earlier = auth.security_events(Some(failed[0].id), None).unwrap();
        assert_eq!(earlier.len(), 2);
    }
}

#[test]
fn old_events_and_those_of_a_flood_are_not_kept() {
    let store = memory();
    let clock = Clock::new();
    let auth = Auth::new(&store, clock.of(settings().events_max(100))).unwrap();
    let one = Some(IpAddr::from([192, 0, 2, 1]));
    for number in 0..300 {
        assert!(auth.login(&format!("user{number}"), "not it", one).is_err());
    }
    // 60 failures, and 60 refusals by the limit of the address.
    let count = || auth.security_events(None, None).unwrap().len();
    assert_eq!(count(), 120);
    clock.advance(Duration::from_secs(61));
    assert!(auth.reset_password("mt_guess", PASSWORD, one).is_err());
    let links = auth.security_events(None, Some("link-refused")).unwrap();
    assert!(links.len() <= 1);
    // Each 256th event deletes what is too old or too many, on another thread.
    let begun = Instant::now();
    let mut number = 0;
    while !auth.security_events(Some(100), None).unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        for _ in 0..64 {
            auth.set_group(&format!("group{}", number % 8), &[]).unwrap();
            number += 1;
        }
    }
    // Without a number, none are kept.
    let auth = Auth::new(&memory(), settings().events_max(0)).unwrap();
    user(&auth, "ann");
    assert!(auth.security_events(None, None).unwrap().is_empty());
}
