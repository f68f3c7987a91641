// The texts of the pages of accounts in the language of the person. The English text is the name of each.

let texts = {}

// Returns a text in the language that was loaded, with its values: t('Remove {name}', { name }).
export const t = (text, values = {}) =>
  (texts[text] ?? text).replace(/\{(\w+)\}/g, (part, name) => values[name] ?? part)

// Returns a text of the server in the language that was loaded. Without a translation, which a text with values
// never has, it is that of its kind.
export const translated = (text, kind) => texts[text] ?? texts[kind] ?? text

const KEY = 'marmota-language'

// Loads the texts of the language that was chosen on this device; without one, the server takes it from
// `Accept-Language`. Returns the languages that there are, and the one that is used.
export const loadTexts = async () => {
  const wanted = new URLSearchParams(location.search).get('lang') ?? localStorage.getItem(KEY)
  const query = wanted ? `?lang=${encodeURIComponent(wanted)}` : ''
  const response = await fetch(`/account/texts.json${query}`)
  const loaded = response.ok ? await response.json() : { language: 'en', languages: ['en'], texts: {} }
  texts = loaded.texts
  document.documentElement.lang = loaded.language
  return loaded
}

// Uses another language from now on.
export const chooseLanguage = language => {
  localStorage.setItem(KEY, language)
  const url = new URL(location.href)
  url.searchParams.delete('lang')
  history.replaceState(null, '', url)
}
