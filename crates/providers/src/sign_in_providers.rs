//! [`SignInProviders`]: the providers that pages offer.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use marmota_auth::{
    ExternalIdentity, IdentityProviders, ProviderCode, ProviderInfo, ProviderRequest,
};
use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind, Result};
use sha2::{Digest as _, Sha256};

use crate::http_client::{HttpClient, check_url};
use crate::open_id::OpenId;
use crate::plain_oauth::PlainOauth;

/// The providers of a [`ProviderFile`](crate::ProviderFile).
#[derive(Clone)]
pub struct SignInProviders {
    pub(crate) all: Arc<Vec<Provider>>,
    pub(crate) client: HttpClient,
}

impl std::fmt::Debug for SignInProviders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.all.iter().map(|one| &one.info.name)).finish()
    }
}

pub(crate) struct Provider {
    pub(crate) info: ProviderInfo,
    pub(crate) scopes: String,
    pub(crate) kind: ProviderKind,
}

pub(crate) enum ProviderKind {
    OpenId(OpenId),
    Plain(PlainOauth),
}

impl SignInProviders {
    fn named(&self, name: &str) -> Result<&Provider> {
        self.all.iter().find(|one| one.info.name == name).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("there is no provider {}", excerpt(name)))
        })
    }
}

impl IdentityProviders for SignInProviders {
    fn offered(&self) -> Vec<ProviderInfo> {
        self.all.iter().map(|one| one.info.clone()).collect()
    }

    fn authorization_url(&self, request: &ProviderRequest<'_>) -> Result<String> {
        let provider = self.named(request.provider)?;
        let (url, client_id) = match &provider.kind {
            ProviderKind::OpenId(one) => {
                (one.discovery(&self.client)?.authorize_url, &one.client_id)
            }
            ProviderKind::Plain(one) => (one.authorize_url.clone(), &one.client_id),
        };
        let mut url = check_url(&url)?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(request.verifier));
        let mut query = url.query_pairs_mut();
        query.append_pair("response_type", "code");
        query.append_pair("client_id", client_id);
        query.append_pair("redirect_uri", request.redirect_url);
        query.append_pair("scope", &provider.scopes);
        query.append_pair("state", request.state);
        query.append_pair("code_challenge", &challenge);
        query.append_pair("code_challenge_method", "S256");
        if matches!(provider.kind, ProviderKind::OpenId(_)) {
            query.append_pair("nonce", request.nonce);
        }
        drop(query);
        Ok(url.into())
    }

    fn identity(&self, code: &ProviderCode<'_>) -> Result<ExternalIdentity> {
        match &self.named(code.request.provider)?.kind {
            ProviderKind::OpenId(one) => one.identity(&self.client, code),
            ProviderKind::Plain(one) => one.identity(&self.client, code),
        }
    }
}
