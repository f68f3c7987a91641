//! Templates of an application.

use std::fs;

use marmota_mail::{SmtpSender, Templates};
use marmota_model::ErrorKind;

#[test]
fn a_template_with_a_fault_is_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("fr")).unwrap();
    fs::write(folder.path().join("fr/reset.txt"), "Sujet\n\n{{ url }").unwrap();
    let error = Templates::with_folder("Shop", folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("fr/reset.txt:3"), "{error}");
    let missing = Templates::with_folder("Shop", &folder.path().join("missing")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    fs::write(folder.path().join("fr/reset.txt"), "Sujet\n\n{{ url }}").unwrap();
    let templates = Templates::with_folder("Shop", folder.path()).unwrap();
    assert_eq!(templates.languages(), ["de", "en", "fr"]);
}

#[test]
fn a_password_is_not_sent_in_clear_to_another_machine() {
    for url in [
        "smtp://user:secret@mail.example.org",
        "smtp://localhost:25@mail.example.org",
        "smtp://127.0.0.1.example.org:25",
        "http://mail.example.org",
        "mail.example.org",
    ] {
        let error = SmtpSender::new(url, "shop@example.org").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    SmtpSender::new("smtp://user:secret@mail.example.org:587?tls=required", "a@example.org")
        .unwrap();
    assert!(SmtpSender::new("smtp://127.0.0.1:25", "no address").is_err());
}
