//! After-commit hooks: each change is handled at least once, in order, also after a restart and a
//! failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::change::{ChangeKind, ChangeRetention};
use marmota_store::hook::{HookOptions, ModelChange};
use marmota_store::{Store, StoreBuilder};

use crate::conformance::harness::models::{self, Note};
use crate::conformance::harness::subject::{Stand, Subject};

register!($ hooks_promises hooks:
    a_hook_gets_each_change_of_its_model_in_order,
    a_hook_continues_after_a_restart,
    a_failure_is_repeated_and_then_kept,
    one_of_two_hooks_with_a_name_is_called,
);

/// Longer than any hook takes.
const WAIT_MAX: Duration = Duration::from_secs(30);

fn recording(builder: StoreBuilder) -> StoreBuilder {
    models::all(builder).changes(ChangeRetention::default())
}

fn open(subject: &Subject) -> Option<Stand<'_>> {
    subject.capability().change_feed.then(|| Stand::open(subject, recording))
}

/// A hook that sends the texts of notes.
fn texts(sender: Sender<String>) -> impl FnMut(&ModelChange<Note>) -> Result<()> + Send {
    move |change| {
        let row = change.after.as_ref().or(change.before.as_ref());
        let text = row.map(|row| row.text.clone()).unwrap_or_default();
        let _ = sender.send(format!("{} {text}", change.kind.name()));
        Ok(())
    }
}

fn next(receiver: &Receiver<String>) -> String {
    receiver.recv_timeout(WAIT_MAX).unwrap()
}

fn insert(store: &Store, text: &str) -> i64 {
    store.insert(&Note::new(text, None)).run().unwrap()
}

/// A hook gets the rows before and after each change of its model, and no others.
pub fn a_hook_gets_each_change_of_its_model_in_order(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    insert(&stand, "before the hook");
    let (sender, receiver) = channel();
    let hook = stand.after_commit::<Note>("all", move |change| {
        let _ = sender.send(change.clone());
        Ok(())
    });
    let hook = hook.unwrap();
    let id = insert(&stand.with_actor("ann"), "a");
    stand.patch::<Note>(id).set(Note::TEXT, "b").run().unwrap();
    stand.insert(&models::Document::new("of another model", b"")).run().unwrap();
    stand.delete::<Note>(id).run().unwrap();
    let next = || receiver.recv_timeout(WAIT_MAX).unwrap();
    let (inserted, updated, deleted) = (next(), next(), next());
    let text = |row: &Option<Note>| row.as_ref().map(|note| note.text.clone());
    assert_eq!((inserted.kind, text(&inserted.after)), (ChangeKind::Insert, Some("a".into())));
    assert_eq!((inserted.before, inserted.actor.as_deref()), (None, Some("ann")));
    assert_eq!((text(&updated.before), text(&updated.after)), (Some("a".into()), Some("b".into())));
    assert_eq!((text(&deleted.before), deleted.after), (Some("b".into()), None));
    assert!(inserted.position < updated.position && updated.position < deleted.position);
    hook.stop();
    let refused = stand.after_commit::<Note>("", |_| Ok(())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
}

/// Changes that were made while a hook was stopped, and while the store was closed, reach it under
/// its name.
pub fn a_hook_continues_after_a_restart(subject: &Subject) {
    let Some(mut stand) = open(subject) else { return };
    let (sender, receiver) = channel();
    let hook = stand.after_commit::<Note>("texts", texts(sender.clone())).unwrap();
    insert(&stand, "a");
    assert_eq!(next(&receiver), "insert a");
    hook.stop();
    insert(&stand, "b");
    if subject.capability().persistent {
        stand.reopen();
    }
    insert(&stand, "c");
    let hook = stand.after_commit::<Note>("texts", texts(sender)).unwrap();
    assert_eq!(next(&receiver), "insert b");
    assert_eq!(next(&receiver), "insert c");
    hook.stop();
    assert!(receiver.try_recv().is_err(), "nothing was repeated after a hook was stopped");
}

/// A failed call is repeated. A change on which all calls fail becomes a dead letter, and the next
/// change is handled.
pub fn a_failure_is_repeated_and_then_kept(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let (sender, receiver) = channel();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let mut send = texts(sender);
    let options = HookOptions::default().attempts(3).pause(Duration::from_millis(1));
    let hook = stand.after_commit_with::<Note>("fails", options, move |change| {
        let text = change.after.as_ref().map(|note| note.text.as_str());
        match text {
            Some("once") if counted.fetch_add(1, Ordering::Relaxed) == 0 => {
                Err(Error::new(ErrorKind::Busy, "not yet"))
            }
            Some("always") => panic!("it always fails"),
            _ => send(change),
        }
    });
    let hook = hook.unwrap();
    insert(&stand, "once");
    let always = insert(&stand, "always");
    insert(&stand, "good");
    assert_eq!(next(&receiver), "insert once");
    assert_eq!(next(&receiver), "insert good");
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    hook.stop();
    let letters = stand.dead_letters("fails").unwrap();
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!((&*letters[0].table, letters[0].key.clone()), ("note", always.to_string()));
    assert!(letters[0].error.contains("panicked"), "{letters:?}");
    assert!(stand.dead_letters("other").unwrap().is_empty());
    stand.remove_dead_letter(letters[0].id).unwrap();
    assert!(stand.dead_letters("fails").unwrap().is_empty());
}

/// Of two hooks with one name, one is called; when it ends, the other continues.
pub fn one_of_two_hooks_with_a_name_is_called(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let ((first, first_got), (second, second_got)) = (channel(), channel());
    let hook = stand.after_commit::<Note>("one", texts(first)).unwrap();
    insert(&stand, "a");
    assert_eq!(next(&first_got), "insert a");
    let other = stand.after_commit::<Note>("one", texts(second)).unwrap();
    insert(&stand, "b");
    assert_eq!(next(&first_got), "insert b");
    hook.stop();
    insert(&stand, "c");
    assert_eq!(next(&second_got), "insert c");
    other.stop();
    assert!(first_got.try_recv().is_err() && second_got.try_recv().is_err());
}
