// A request as source text: curl, TypeScript and Python.

const shell = text => `'${text.replaceAll("'", "'\\''")}'`
const lines = (text, by) => text.replaceAll('\n', `\n${by}`)

const python = value => {
  if (value === null) return 'None'
  if (value === true) return 'True'
  if (value === false) return 'False'
  if (Array.isArray(value)) return `[${value.map(python).join(', ')}]`
  if (typeof value === 'object') return `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${python(one)}`).join(', ')}}`
  return JSON.stringify(value)
}

const parsed = body => {
  try { return JSON.parse(body) } catch { return undefined }
}

// `call` has method, url, headers, and body as text or undefined.
export const snippets = call => {
  const { method, url, headers, body } = call
  const json = body === undefined ? undefined : parsed(body)
  const named = Object.entries(headers)
  const curl = [`curl ${method === 'GET' ? '' : `-X ${method} `}${shell(url)}`,
    ...named.map(([name, value]) => `-H ${shell(`${name}: ${value}`)}`), ...body === undefined ? [] : [`-d ${shell(body)}`]]
  const options = [`method: '${method}'`, named.length > 0 && `headers: ${JSON.stringify(headers)}`,
    body !== undefined && (json === undefined ? `body: ${JSON.stringify(body)}` : `body: JSON.stringify(${lines(JSON.stringify(json, null, 2), '  ')})`)].filter(Boolean)
  const typescript = [`const response = await fetch(${JSON.stringify(url)}, {`, ...options.map(option => `  ${option},`), '})',
    'if (!response.ok) throw new Error((await response.json()).detail)',
    'const answer = response.status === 204 ? null : await response.json()']
  const others = named.filter(([name]) => json === undefined || name !== 'Content-Type')
  const requests = ['import requests', '', `response = requests.${method.toLowerCase()}(`, `    ${JSON.stringify(url)},`,
    ...others.length > 0 ? [`    headers=${python(Object.fromEntries(others))},`] : [],
    ...body === undefined ? [] : [json === undefined ? `    data=${JSON.stringify(body)}.encode(),` : `    json=${python(json)},`], ')',
    'response.raise_for_status()', 'answer = response.json() if response.content else None']
  return { curl: curl.join(' \\\n  '), TypeScript: typescript.join('\n'), Python: requests.join('\n') }
}
