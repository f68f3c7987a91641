//! A model inside a function, and models that refer to each other.

use marmota_derive::Model;
use marmota_model::{Model, Ref};

#[test]
fn models_inside_a_function() {
    #[derive(Model)]
    struct Egg {
        id: i64,
        laid_by: Ref<Hen>,
    }

    #[derive(Model)]
    struct Hen {
        id: i64,
        hatched_from: Option<Ref<Egg>>,
    }

    let hen = Hen { id: 1, hatched_from: None };
    let egg = Egg { id: 2, laid_by: Ref::new(*hen.key()) };
    assert_eq!((egg.id, egg.laid_by.key()), (2, &hen.id));
    assert!(hen.hatched_from.is_none());
    assert_eq!((Egg::schema().key, Hen::schema().key), (0, 0));
}
