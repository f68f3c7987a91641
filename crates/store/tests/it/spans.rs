//! Spans of what is done with a store, as a program's subscriber hears of them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::IntoFuture;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context as Polled, Poll, Waker};

use marmota_memory::Memory;
use marmota_model::{Field as Of, Kind, Record, Role, Schema};
use marmota_store::meter::Metering;
use marmota_store::{Store, StoreBuilder};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record as Values};
use tracing::{Subscriber, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

type Fields = BTreeMap<String, String>;

/// The fields of each span that has ended, and `in` with the name of its parent.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Fields>>>);

struct Fill<'f>(&'f mut Fields);

impl Visit for Fill<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Heard {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let parent = span.parent().map_or_else(String::new, |span| span.name().to_owned());
        let mut fields = Fields::from([("in".to_owned(), parent)]);
        attributes.record(&mut Fill(&mut fields));
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Values<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(&mut Fill(span.extensions_mut().get_mut().unwrap()));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        if span.metadata().target() == "marmota_store" {
            let fields = span.extensions_mut().remove::<Fields>().unwrap();
            self.0.lock().unwrap().push(fields);
        }
    }
}

impl Heard {
    /// What was heard since the last time: name, rows, error and parent.
    fn take(&self) -> Vec<[String; 4]> {
        let mut heard = std::mem::take(&mut *self.0.lock().unwrap());
        heard
            .iter_mut()
            .map(|fields| {
                assert!(!format!("{fields:?}").contains("secret"), "no value: {fields:?}");
                assert_eq!(fields["db.system.name"], "memory");
                assert_eq!(fields["otel.kind"], "client");
                let name = format!("{} {}", fields["db.operation.name"], {
                    fields.get("db.collection.name").map_or("", String::as_str)
                });
                assert_eq!(fields["otel.name"], name.trim());
                let mut value = |name: &str| fields.remove(name).unwrap_or_default();
                let status = value("otel.status_code");
                let error = format!("{} {status}", value("error.type")).trim().to_owned();
                [value("otel.name"), value("marmota.rows"), error, value("in")]
            })
            .collect()
    }
}

fn note(builder: impl FnOnce(StoreBuilder) -> StoreBuilder) -> Store {
    let id = Of::new("id", Kind::I64).role(Role::Key);
    let note = vec![id, Of::new("text", Kind::TEXT).unique(true)];
    builder(Store::builder(Memory::new()).schema(Schema::new("note", note))).open().unwrap()
}

fn record(store: &Store, text: &str) -> Record {
    let mut note = Record::new(store.table("note").unwrap());
    note.set("text", text).unwrap();
    note
}

fn listening(run: impl FnOnce(&Heard)) {
    let heard = Heard::default();
    let subscriber = tracing_subscriber::registry().with(heard.clone());
    tracing::subscriber::with_default(subscriber, || run(&heard));
}

#[track_caller]
fn says(heard: &Heard, wanted: &[[&str; 4]]) {
    let heard = heard.take();
    let heard: Vec<[&str; 4]> =
        heard.iter().map(|one| [&*one[0], &*one[1], &*one[2], &*one[3]]).collect();
    assert_eq!(heard, wanted);
}

#[test]
fn an_operation_has_a_span_inside_of_its_callers() {
    // The same whether it goes straight to a session, or by a cache and is counted.
    let counted =
        |builder: StoreBuilder| builder.cache(1 << 20).metering(Metering::default()).traced();
    for store in [note(StoreBuilder::traced), note(counted)] {
        listening(|heard| {
            let table = store.table("note").unwrap();
            let request = info_span!("request");
            let id = request.in_scope(|| {
                let id = store.insert_record(&record(&store, "secret")).run().unwrap();
                assert!(store.insert_record(&record(&store, "secret")).run().is_err());
                id
            });
            let insert = |rows, error| ["insert note", rows, error, "request"];
            says(heard, &[insert("1", ""), insert("", "conflict")]);
            store.get_record(&table, id.clone()).run().unwrap();
            assert!(store.get_record(&table, 77).run().is_err(), "found nothing");
            store.insert_record(&record(&store, "secret too")).run().unwrap();
            assert_eq!(store.list_records(&table).run().unwrap().len(), 2);
            says(
                heard,
                &[
                    ["get note", "1", "", ""],
                    ["get note", "0", "", ""],
                    ["insert note", "1", "", ""],
                    ["list note", "2", "", ""],
                ],
            );
            let mut batch = store.batch();
            batch.insert_record(&record(&store, "more secrets"));
            batch.delete_value(table.clone(), id, None);
            batch.all_or_nothing().run().unwrap();
            says(heard, &[["batch", "2", "", ""]]);
            store
                .transaction(|own| own.insert_record(&record(&store, "own")).run().map(drop))
                .unwrap();
            says(
                heard,
                &[["begin", "0", "", ""], ["insert note", "1", "", ""], ["commit", "0", "", ""]],
            );
            store.close().unwrap();
            assert!(store.insert_record(&record(&store, "late")).run().is_err());
            says(heard, &[["insert note", "", "closed ERROR", ""]]);
        });
    }
}

#[test]
fn a_span_lasts_as_long_as_its_operation_waits() {
    listening(|heard| {
        let store = note(StoreBuilder::traced);
        let transaction = store.begin_run().unwrap();
        transaction.insert_record(&record(&store, "first")).run().unwrap();
        heard.take();
        let mut context = Polled::from_waker(Waker::noop());
        let second = record(&store, "second");
        let mut waits = info_span!("one").in_scope(|| {
            let mut waits = Box::pin(store.insert_record(&second).into_future());
            assert!(waits.as_mut().poll(&mut context).is_pending());
            waits
        });
        let third = record(&store, "third");
        {
            let mut given_up = pin!(store.insert_record(&third).into_future());
            assert!(given_up.as_mut().poll(&mut context).is_pending());
            says(heard, &[]);
        }
        says(heard, &[["insert note", "", "given up", ""]]);
        transaction.commit().run().unwrap();
        assert_eq!(heard.take().len(), 1);
        // Polled elsewhere it stays its caller's.
        assert!(matches!(waits.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
        says(heard, &[["insert note", "1", "", "one"]]);
    });
}

#[test]
fn a_store_that_was_not_asked_to_tells_of_nothing() {
    listening(|heard| {
        let store = note(|builder| builder.metering(Metering::default()));
        store.insert_record(&record(&store, "a")).run().unwrap();
        says(heard, &[]);
    });
}
