//! Grants of calls, which need no model.

use marmota_memory::Memory;
use marmota_store::Store;
use marmota_store::rights::{Grant, Right, Rights};

#[test]
fn calls_are_granted_by_method_by_service_or_all() {
    let store = Store::builder(Memory::new()).open().unwrap();
    let may = |grant: &str, service, method| {
        let rights = Rights::new(store.registry(), None, &[Grant::call(grant)]).unwrap();
        rights.check_call(service, method).is_ok()
    };
    for (grant, add, sub, sum) in [
        ("*", true, true, true),
        ("calc", true, true, false),
        ("calc.add", true, false, false),
        ("sum", false, false, true),
    ] {
        assert_eq!(may(grant, "calc", Some("add")), add, "{grant}");
        assert_eq!(may(grant, "calc", Some("sub")), sub, "{grant}");
        assert_eq!(may(grant, "sum", None), sum, "{grant}");
    }
    for wrong in [
        Grant::call("calc").rule("id = 1"),
        Grant::new("service:calc", &[Right::Read]),
        Grant::new("*", &[Right::Call]),
    ] {
        assert!(wrong.check(store.registry()).is_err(), "{wrong:?}");
    }
}
