//! Tables whose writes need a recent authentication.

use std::time::Duration;

use marmota_auth::{Auth, Identity};
use marmota_model::{ErrorKind, Record, Result};
use marmota_store::Store;

use super::{Clock, PASSWORD, memory, refused, settings, stores, unknown, user};

fn write(store: &Store, known: &Identity) -> Result<()> {
    let mut row = Record::new(store.table("note")?);
    row.set("owner", known.user())?;
    row.set("text", "text")?;
    known.store().insert_record(&row).run().map(drop)
}

#[test]
fn writes_need_a_recent_authentication() {
    for store in stores() {
        let clock = Clock::new();
        let settings = clock.of(settings()).step_up("note", Duration::from_secs(300));
        let auth = Auth::new(&store, settings).unwrap();
        let ann = user(&auth, "ann");
        let token = auth.login("ann", PASSWORD, None).unwrap().token;
        let known = || auth.authenticate(&token).run().unwrap();
        write(&store, &known()).unwrap();
        clock.advance(Duration::from_secs(301));
        let error = write(&store, &known()).unwrap_err();
        assert_eq!(
            (error.kind(), error.violations()[0].rule.as_str()),
            (ErrorKind::Denied, "step-up")
        );
        assert!(error.message().contains("/auth/step-up"), "{error}");
        let note = store.table("note").unwrap();
        // Reads are as before. Updates and deletes, also in a batch, are not.
        let row = known().store().list_records(&note).run().unwrap().remove(0);
        let key = row.values()[0].clone();
        refused(known().store().delete_record(&note, key.clone()).run(), ErrorKind::Denied);
        refused(known().store().update_record(key, &row).run(), ErrorKind::Denied);
        let caller = known();
        let mut batch = caller.store().batch();
        let _ = batch.insert_record(&row);
        assert!(batch.all_or_nothing().run().is_err());

        unknown(auth.step_up(&known(), "not it", None, None));
        auth.step_up(&known(), PASSWORD, None, None).unwrap();
        write(&store, &known()).unwrap();
        clock.advance(Duration::from_secs(301));
        refused(write(&store, &known()), ErrorKind::Denied);
        // A new login is recent; a key never is.
        let again = auth.login("ann", PASSWORD, None).unwrap().token;
        write(&store, &auth.authenticate(&again).run().unwrap()).unwrap();
        let key = auth.make_key_for(ann, "key", None).unwrap().1;
        let by_key = auth.authenticate(&key).run().unwrap();
        refused(write(&store, &by_key), ErrorKind::Denied);
        refused(auth.step_up(&by_key, PASSWORD, None, None), ErrorKind::Denied);
        assert_eq!(auth.security_events(None, Some("stepped-up")).unwrap().len(), 1);
    }
    let unknown = Auth::new(&memory(), settings().step_up("other", Duration::from_secs(1)));
    assert!(unknown.is_err());
}
