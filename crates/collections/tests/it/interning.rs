//! Interned texts: one copy, measured, bounded, given back.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use marmota_collections::{Interner, Symbol, Symbols};
use marmota_model::ErrorKind;
use proptest::prelude::*;

proptest! {
    #[test]
    fn equal_texts_are_one_and_others_are_not(texts in prop::collection::vec("[a-c]{0,3}", 0..60)) {
        let (interner, symbols) = (Interner::new(), Symbols::new());
        let mut model: HashMap<String, (Arc<str>, Symbol)> = HashMap::new();
        for text in &texts {
            let (held, symbol) = (interner.intern(text), symbols.symbol(text).unwrap());
            prop_assert_eq!(&*held, text.as_str());
            let back = symbols.text(symbol);
            prop_assert_eq!(back.as_deref(), Some(text.as_str()));
            let next = Symbol(model.len() as u32);
            let first = model.entry(text.clone()).or_insert((held.clone(), next));
            prop_assert!(Arc::ptr_eq(&first.0, &held));
            prop_assert_eq!(first.1, symbol);
        }
        prop_assert_eq!(interner.held().texts, model.len());
        prop_assert_eq!(symbols.held().texts, model.len());
        prop_assert_eq!(interner.clean(), 0);
        let kept: Vec<_> = model.into_values().take(3).collect();
        interner.clean();
        prop_assert_eq!(interner.held().texts, kept.len());
        prop_assert!(kept.iter().all(|(held, _)| interner.find(held).is_some()));
    }
}

#[test]
fn what_is_held_is_told_and_bounded() {
    let interner = Interner::with_bytes_max(64 << 10);
    for number in 0..100_000 {
        let text = format!("text {number}");
        assert_eq!(&*interner.intern(&text), text);
    }
    let held = interner.held();
    // The texts' bytes are bounded; the table has a few words for each.
    assert!(held.texts > 100 && held.bytes < 256 << 10, "{held:?}");
    // With all in use there is no room, and texts are handed out all the same.
    let mut kept = Vec::new();
    for number in 0..20_000 {
        kept.push(interner.intern(&format!("kept {number}")));
    }
    assert!(interner.held().bytes < 256 << 10);
    drop(kept);
    interner.clean();
    assert_eq!(interner.held().texts, 0);
    assert!(interner.held().bytes < 20 << 10, "{:?}", interner.held());
}

#[test]
fn a_full_table_of_symbols_is_an_error_and_keeps_what_it_has() {
    let symbols = Symbols::with_bytes_max(100);
    let names = ["one", "two", "three", "four", "five", "six"];
    let given: Vec<_> = names.iter().map_while(|name| symbols.symbol(name).ok()).collect();
    assert_eq!(given.len(), 5);
    assert_eq!(symbols.symbol("six").unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(symbols.symbol("one").unwrap(), Symbol(0));
}

#[test]
fn threads_get_the_same_copy_while_others_clean() {
    let (interner, symbols) = (Interner::new(), Symbols::new());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for number in 0..20_000 {
                    let text = format!("{}", number % 97);
                    let (one, other) = (interner.intern(&text), interner.intern(&text));
                    assert!(Arc::ptr_eq(&one, &other));
                    let symbol = symbols.symbol(&text).unwrap();
                    assert_eq!(symbols.text(symbol).as_deref(), Some(text.as_str()));
                }
            });
        }
        scope.spawn(|| (0..200).map(|_| interner.clean()).sum::<usize>());
    });
    interner.clean();
    assert_eq!((interner.held().texts, symbols.held().texts), (0, 97));
}
