//! Limits on logins, which cannot be used to lock other users out; and the last administrator.

use std::net::IpAddr;

use marmota_auth::Auth;
use marmota_model::ErrorKind;

use crate::{Clock, PASSWORD, ms, refused, settings, stores, unknown, user};

fn v4(third: u8, last: u8) -> Option<IpAddr> {
    Some(IpAddr::from([10, 0, third, last]))
}

#[test]
fn failures_of_others_lock_nobody_out() {
    for store in stores() {
        let clock = Clock::new();
        let auth = Auth::new(&store, clock.of(settings())).unwrap();
        user(&auth, "ann");
        let home = v4(0, 1);
        auth.login("ann", PASSWORD, home).unwrap();
        // 100 failures from ten addresses.
        for address in 0..10 {
            for _ in 0..10 {
                unknown(auth.login("ann", "wrong", v4(1, address)));
            }
            refused(auth.login("ann", PASSWORD, v4(1, address)), ErrorKind::Busy);
        }
        auth.login("ann", PASSWORD, home).unwrap();
        auth.login("ann", PASSWORD, v4(2, 1)).unwrap();
        // An address that the account does not know has two attempts now.
        unknown(auth.login("ann", "wrong", v4(3, 1)));
        unknown(auth.login("ann", "wrong", v4(3, 1)));
        refused(auth.login("ann", PASSWORD, v4(3, 1)), ErrorKind::Busy);
        // One address alone, whatever the names.
        for number in 0..100 {
            unknown(auth.login(&format!("user {number}"), "wrong", home));
        }
        refused(auth.login("user 100", "wrong", home), ErrorKind::Busy);
        auth.login("ann", PASSWORD, home).unwrap();
        clock.advance(ms(15 * 60 * 1000));
        auth.login("ann", PASSWORD, v4(1, 0)).unwrap();
    }
}

#[test]
fn addresses_of_one_network_count_as_one() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        user(&auth, "ann");
        let v6 = |last: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, 7, 0, last, 1, last]));
        for last in 0..10 {
            unknown(auth.login("ann", "wrong", v6(last)));
        }
        refused(auth.login("ann", PASSWORD, v6(99)), ErrorKind::Busy);
    }
}

#[test]
fn the_last_administrator_stays_one() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        let token = auth.setup_token().unwrap();
        auth.set_password("admin", token, PASSWORD, None).unwrap();
        let admin = auth.users().unwrap()[0].id;
        let ann = user(&auth, "ann");
        let demoted = || auth.change_user(admin, None, Some(false), None);
        // Another administrator who cannot log in does not count.
        let (bob, _) = auth.add_user("bob", &[], true).unwrap();
        for refusal in
            [demoted(), auth.change_user(admin, None, None, Some(true)), auth.remove_user(admin)]
        {
            let error = refusal.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(error.message().contains("`admin` is the last administrator"), "{error}");
        }
        auth.remove_user(bob).unwrap();
        auth.change_user(admin, Some(&[]), Some(true), Some(false)).unwrap();
        auth.change_user(ann, None, Some(true), None).unwrap();
        demoted().unwrap();
        refused(auth.remove_user(ann), ErrorKind::Conflict);
        assert_eq!(Auth::new(&store, settings()).unwrap().setup_token(), None);
    }
}

/// Where users have passwords, a start prints no token for an administrator.
#[test]
fn no_token_is_made_where_users_have_passwords() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        user(&auth, "ann");
        assert_eq!(Auth::new(&store, settings()).unwrap().setup_token(), None);
    }
}
