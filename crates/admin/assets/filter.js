// The condition of a list: a text, and a form that adds terms to it.

import { button, fill, h, newId } from './dom.js'
import { literal, quoted } from './fields.js'

const compare = [['=', 'is'], ['!=', 'is not'], ['<', 'less than'], ['<=', 'at most'], ['>', 'more than'], ['>=', 'at least']]
const nulls = [['null', 'is null'], ['not null', 'is not null']]

// The operators of a field: the operator of the filter, and its name.
const operatorsOf = field => {
  const own = {
    text: [['~', 'contains'], ['^', 'begins with'], ...compare.slice(0, 2)],
    enum: compare.slice(0, 2), boolean: compare.slice(0, 1), uuid: compare.slice(0, 2),
    reference: compare.slice(0, 2), json: [], blob: [], vector: [],
    file: [['.name ~', 'name contains'], ['.type ^', 'type begins with']],
  }[field.kind] ?? compare
  return [...field.search ? [['@', 'has the words']] : [], ...own, ...field.nullable ? nulls : []]
}

const termOf = (field, operator, text) => {
  if (operator === 'null') return `${field.name} = null`
  if (operator === 'not null') return `${field.name} != null`
  if (operator.startsWith('.')) return `${field.name}${operator} ${quoted(text)}`
  if (operator === '@') return `${field.name} @ ${quoted(text)}`
  return `${field.name} ${operator} ${literal(field, text)}`
}

// The form. `apply` gets the new filter.
export const filterForm = (table, current, apply) => {
  const text = h('input', { type: 'search', class: 'mono grow', value: current, spellcheck: 'false', autocomplete: 'off', 'aria-label': 'Filter', placeholder: `Filter, such as ${table.key} = 1` })
  const fields = table.fields.filter(field => operatorsOf(field).length > 0)
  const names = h('select', { 'aria-label': 'Field' }, fields.map(field => h('option', {}, field.name)))
  const operators = h('select', { 'aria-label': 'Operator' })
  const place = h('span', {})
  const error = h('span', { class: 'error', role: 'alert' })
  let value
  const field = () => table.fieldOf[names.value]
  const showValue = () => {
    const { kind, values } = field()
    const options = kind === 'boolean' ? ['true', 'false'] : kind === 'enum' ? values : null
    value = options
      ? h('select', { 'aria-label': 'Value' }, options.map(option => h('option', {}, option)))
      : h('input', { 'aria-label': 'Value', type: kind === 'date' ? 'date' : 'text', autocomplete: 'off' })
    fill(place, ['null', 'not null'].includes(operators.value) ? null : value)
  }
  const showOperators = () => {
    fill(operators, operatorsOf(field()).map(([operator, name]) => h('option', { value: operator }, name)))
    showValue()
  }
  names.addEventListener('change', showOperators)
  operators.addEventListener('change', showValue)
  showOperators()
  const add = event => {
    event.preventDefault()
    error.textContent = ''
    try {
      const term = termOf(field(), operators.value, value.value)
      apply(text.value.trim() ? `(${text.value}) and ${term}`.replace(/^\(([^()]*)\) and/, (all, inner) => / or /i.test(inner) ? all : `${inner} and`) : term)
    } catch (problem) { error.textContent = problem.message }
  }
  const builder = h('form', { class: 'builder', id: newId(), onsubmit: add, novalidate: true, hidden: true },
    names, operators, place, h('button', {}, 'Add condition'), error)
  const toggle = button('Condition …', () => {
    builder.hidden = !builder.hidden
    toggle.setAttribute('aria-expanded', String(!builder.hidden))
    if (!builder.hidden) names.focus()
  }, { 'aria-expanded': 'false', 'aria-controls': builder.id })
  const search = h('form', { class: 'filter', role: 'search', onsubmit: event => { event.preventDefault(); apply(text.value.trim()) } },
    text, h('button', { class: 'primary' }, 'Filter'), toggle,
    current && button('Clear', () => apply('')))
  return h('div', {}, search, builder)
}
