//! The pages of accounts: a person signs up by mail, sets up an authenticator app, and leaves.

use marmota_mail::MailCatcher;
use serde_json::json;
use totp_rs::{Builder, Secret};

use crate::browser::{Browser, Driver, Look, run};
use crate::program::Program;

const PASSWORD: &str = "correct horse battery";
const ANN: &str = "ann@example.org";

/// Types into the first control of a part of the account's page.
async fn type_into(page: &Browser, part: &str, text: &str) {
    let script = format!(
        "[...document.querySelectorAll('section')]
            .find(one => one.querySelector('h2').textContent === {})
            .querySelector('input').focus()",
        json!(part)
    );
    page.run(&script).await;
    page.keys(text).await;
}

async fn sign_in(page: &Browser, code: &str) {
    page.fill("Email address or name", ANN).await;
    page.fill("Password", PASSWORD).await;
    page.press("Sign in").await;
    page.shows("From your authenticator app").await;
    page.fill("Code", code).await;
    page.press("Sign in").await;
}

#[test]
fn an_administrator_invites_a_person() {
    let catcher = MailCatcher::start().unwrap();
    let program = Program::start(&[
        "--auth",
        "--sign-up=invited",
        &format!("--mail-url={}", catcher.url()),
        "--mail-from=Shop <shop@example.org>",
    ]);
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.open(&program.address_with("#/set-password")).await;
        page.fill("New password", PASSWORD).await;
        page.press("Set password").await;
        page.shows("All tables").await;
        page.press("Users").await;
        page.press("Invite").await;
        page.fill("Email address", ANN).await;
        page.is_accessible("invite").await;
        page.press("Invite").await;
        page.shows("Invitations").await;
        page.shows(ANN).await;
        page.is_accessible("invitations").await;
        let token = catcher.mail(0).unwrap().token();
        let ann = driver.browser(Look::Light).await;
        ann.open(&format!("{}/account#/join/{token}", program.url)).await;
        ann.fill("New password", PASSWORD).await;
        ann.press("Create account").await;
        ann.shows("Your account is ready").await;
        ann.close().await;
        page.press("Groups").await;
        page.press("Users").await;
        page.hides("Invitations").await;
        page.shows(ANN).await;
        page.close().await;
    });
}

#[test]
fn a_person_signs_up_and_protects_the_account() {
    let catcher = MailCatcher::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let style = folder.path().join("shop.css");
    std::fs::write(&style, "body.account { --accent: light-dark(#7a1f1f, #ffb4a8) }").unwrap();
    let program = Program::start(&[
        "--auth",
        "--sign-up=open",
        "--login-links",
        &format!("--mail-url={}", catcher.url()),
        "--mail-from=Shop <shop@example.org>",
        &format!("--account-style={}", style.display()),
    ]);
    let account = format!("{}/account", program.url);
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.open(&account).await;
        page.shows("Sign in to marmota").await;
        page.is_accessible("account-sign-in").await;
        let accent =
            "getComputedStyle(document.body).getPropertyValue('--accent').includes('#7a1f1f')";
        page.wait(accent).await;
        page.press("Create an account").await;
        page.fill("Email address", "no address").await;
        page.press("Continue").await;
        page.shows("must be a mail address").await;
        page.fill("Email address", ANN).await;
        page.is_accessible("account-sign-up").await;
        page.press("Continue").await;
        page.shows("Check your email").await;
        page.is_accessible("account-mail").await;

        // The link of the mail makes the account, once.
        let mail = catcher.mail(0).unwrap();
        assert!(mail.text.contains(&account), "{}", mail.text);
        let join = format!("{account}#/join/{}", mail.token());
        page.open("about:blank").await;
        page.open(&join).await;
        page.fill("New password", "short").await;
        page.press("Create account").await;
        page.wait("document.querySelector('form').innerText.includes('8 characters')").await;
        page.fill("New password", PASSWORD).await;
        page.is_accessible("account-join").await;
        page.press("Create account").await;
        page.shows("Your account is ready").await;
        page.wait("location.hash === ''").await;
        page.press("Sign in").await;
        page.fill("Email address or name", ANN).await;
        page.fill("Password", PASSWORD).await;
        page.press("Sign in").await;
        page.shows("Your account").await;
        page.shows("This device").await;
        page.is_accessible("account").await;

        // An authenticator app.
        type_into(&page, "Authenticator app", PASSWORD).await;
        page.press("Set up an app").await;
        page.shows("Scan this code").await;
        page.wait("document.querySelector('svg[role=img] path')").await;
        page.is_accessible("account-app").await;
        let secret = page.run("return document.querySelector('input[readonly]').value").await;
        let secret = Secret::try_from_base32(secret.as_str().unwrap()).unwrap();
        let app = Builder::new().with_secret(secret).with_account_name("ann").build().unwrap();
        page.fill("Code", &app.generate_current().to_string()).await;
        page.press("Confirm").await;
        page.shows("Recovery codes").await;
        page.is_accessible("account-codes").await;
        let codes = "return [...document.querySelectorAll('main li')].map(one => one.textContent)";
        let codes: Vec<String> = serde_json::from_value(page.run(codes).await).unwrap();
        assert_eq!(codes.len(), 10);
        page.press("Continue").await;
        page.shows("10 recovery codes are left").await;
        page.press("Sign out").await;
        sign_in(&page, &codes[0]).await;
        page.shows("9 recovery codes are left").await;

        // The page after the login is one of this server.
        for (next, path, code) in [
            ("https://evil.example/", "/account", 1),
            ("//evil.example/", "/account", 2),
            ("/docs", "/docs", 3),
        ] {
            page.open(&account).await;
            page.press("Sign out").await;
            page.shows("Sign in to marmota").await;
            page.open(&format!("{account}?next={next}")).await;
            sign_in(&page, &codes[code]).await;
            page.wait(&format!("location.href.startsWith({})", json!(program.url))).await;
            page.wait(&format!("location.pathname === '{path}'")).await;
            page.wait("!document.body.innerText.includes('Sign in to')").await;
        }

        // A link signs in, with a code.
        page.open(&account).await;
        page.press("Sign out").await;
        page.press("Sign in by email").await;
        page.fill("Email address", ANN).await;
        page.press("Send link").await;
        page.shows("Check your email").await;
        let token = catcher.mail(1).unwrap().token();
        page.open("about:blank").await;
        page.open(&format!("{account}#/login-link/{token}")).await;
        page.press("Sign in").await;
        page.fill("Code", &codes[4]).await;
        page.press("Sign in").await;
        page.shows("5 recovery codes are left").await;

        // The person leaves.
        type_into(&page, "Your data", PASSWORD).await;
        page.press("Delete the account").await;
        page.press("Delete").await;
        let code = "[...document.querySelectorAll('section')].at(-1).querySelectorAll('input')[1]";
        page.wait(&format!("{code} === document.activeElement")).await;
        page.keys(&codes[5]).await;
        page.press("Delete the account").await;
        page.shows("Your account was deleted").await;
        page.loads_nothing_foreign().await;
        page.close().await;

        for (look, name) in [(Look::Dark, "dark"), (Look::Phone, "phone")] {
            let page = driver.browser(look).await;
            for part in ["", "#/sign-up", "#/reset-password", "#/join/mt_x"] {
                page.open("about:blank").await;
                page.open(&format!("{account}{part}")).await;
                page.is_accessible(&format!("account-{name}{}", part.replace(['#', '/'], "-")))
                    .await;
            }
            page.close().await;
        }
    });
}

/// The tables of an application with fields of users.
const TABLES: &str = "
[tables.person]
profile = true

[tables.person.fields]
id = { kind = 'integer', role = 'key' }
user = { kind = 'integer', unique = true }
display_name = { kind = 'text', max = 60, not_empty = true }
is_paying = { kind = 'boolean', default = false }

[[groups.everyone.grants]]
table = 'person'
rights = ['read', 'insert', 'update']
rule = 'user = @user.id'
except = ['is_paying']
";

#[test]
fn a_person_fills_in_fields_of_the_application_in_their_language() {
    let catcher = MailCatcher::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("app.toml");
    std::fs::write(&tables, TABLES).unwrap();
    let texts = folder.path().join("texts");
    std::fs::create_dir_all(texts.join("fr")).unwrap();
    let french = r#"{ "Your account": "Votre compte", "Display name": "Nom affiché" }"#;
    std::fs::write(texts.join("fr/account.json"), french).unwrap();
    let program = Program::start(&[
        "--auth",
        "--sign-up=open",
        "--login-attempts-max=2",
        &format!("--mail-url={}", catcher.url()),
        "--mail-from=Shop <shop@example.org>",
        &format!("--app={}", tables.display()),
        &format!("--mail-templates={}", texts.display()),
    ]);
    let account = format!("{}/account", program.url);
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.open(&format!("{account}?lang=de")).await;
        page.shows("Bei marmota anmelden").await;
        page.wait("document.documentElement.lang === 'de'").await;
        page.is_accessible("account-german").await;
        page.run("localStorage.setItem('marmota-language', 'de')").await;
        page.press("Konto anlegen").await;
        page.fill("E-Mail-Adresse", ANN).await;
        page.press("Weiter").await;
        page.shows("Sehen Sie in Ihre E-Mails").await;

        // The language is remembered. A value that breaks a rule makes no account.
        page.open("about:blank").await;
        page.open(&format!("{account}#/join/{}", catcher.mail(0).unwrap().token())).await;
        page.fill("Neues Passwort", PASSWORD).await;
        page.hides("Is paying").await;
        page.press("Konto anlegen").await;
        page.wait("document.querySelector('[aria-invalid]')").await;
        page.shows("darf nicht leer sein").await;
        page.is_accessible("account-fields").await;
        page.fill("Display name", "Ann").await;
        page.press("Konto anlegen").await;
        page.shows("Ihr Konto ist fertig").await;
        page.press("Anmelden").await;
        // Errors of the server: by their text, and by their kind if the text has a number.
        page.fill("E-Mail-Adresse oder Name", "bob").await;
        page.fill("Passwort", "another password").await;
        page.press("Anmelden").await;
        page.shows("Der Name oder das Passwort ist falsch.").await;
        page.fill("Passwort", "a third password").await;
        // How many attempts it takes depends on how long each of them takes.
        page.wait(
            "document.body.innerText.includes('Es waren zu viele Versuche') \
             || void document.querySelector('button.primary:enabled')?.click()",
        )
        .await;
        page.fill("E-Mail-Adresse oder Name", ANN).await;
        page.fill("Passwort", PASSWORD).await;
        page.press("Anmelden").await;
        page.shows("Ihr Konto").await;
        let name = "[...document.querySelectorAll('input')].some(one => one.value === ";
        page.wait(&format!("{name}'Ann')")).await;
        page.fill("Display name", "Ann B.").await;
        page.press("Profil speichern").await;
        page.shows("Das Profil wurde gespeichert").await;
        page.wait(&format!("{name}'Ann B.')")).await;
        page.is_accessible("account-profile").await;

        // A language of the application, of which some texts are missing.
        let french = "const choice = document.querySelector('#user select')
            choice.value = 'fr'
            choice.dispatchEvent(new Event('change'))";
        page.run(french).await;
        page.shows("Votre compte").await;
        page.shows("Nom affiché").await;
        page.shows("Change password").await;
        page.loads_nothing_foreign().await;
        page.close().await;
    });
}
