#include "watched.h"

// NB_TUPLE_… and NB_LIST_…: Python's own macros are not in its stable interface.
namespace nb = nanobind;

namespace plimsoll::python {

bool same_items(const nb::list& watched) {
  for (const nb::handle each : watched) {
    const auto entry = nb::borrow<nb::tuple>(each);
    PyObject* const container = NB_TUPLE_GET_ITEM(entry.ptr(), 0);
    PyObject* const keys = NB_TUPLE_GET_ITEM(entry.ptr(), 1);
    PyObject* const values = NB_TUPLE_GET_ITEM(entry.ptr(), 2);
    const Py_ssize_t count = NB_TUPLE_GET_SIZE(values);
    if (PyList_Check(container)) {
      if (NB_LIST_GET_SIZE(container) != count) return false;
      for (Py_ssize_t i = 0; i < count; ++i) {
        if (NB_LIST_GET_ITEM(container, i) != NB_TUPLE_GET_ITEM(values, i)) return false;
      }
      continue;
    }
    if (PyDict_Size(container) != count) return false;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    Py_ssize_t position = 0;
    for (Py_ssize_t i = 0; PyDict_Next(container, &position, &key, &value) != 0; ++i) {
      if (key != NB_TUPLE_GET_ITEM(keys, i) || value != NB_TUPLE_GET_ITEM(values, i)) return false;
    }
  }
  return true;
}

bool same_values(const nb::list& watched) {
  for (const nb::handle each : watched) {
    PyObject* const held =
        PyDict_GetItem(NB_TUPLE_GET_ITEM(each.ptr(), 0), NB_TUPLE_GET_ITEM(each.ptr(), 1));
    if (held != NB_TUPLE_GET_ITEM(each.ptr(), 2)) return false;
  }
  return true;
}

bool same_attributes(const nb::list& watched) {
  for (const nb::handle each : watched) {
    const nb::object held = nb::steal(
        PyObject_GetAttr(NB_TUPLE_GET_ITEM(each.ptr(), 0), NB_TUPLE_GET_ITEM(each.ptr(), 1)));
    if (!held.is_valid()) PyErr_Clear();
    if (held.ptr() != NB_TUPLE_GET_ITEM(each.ptr(), 2)) return false;
  }
  return true;
}

}  // namespace plimsoll::python
