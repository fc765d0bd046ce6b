#include "call_site.h"

#include "frames.h"
#include "tables.h"

namespace sonde_match {

namespace {

// A program that makes code or modules without end has more; the rest is learned each time.
constexpr size_t kMostSites = 50000;
constexpr size_t kMostCodes = 100000;
constexpr unsigned long long kNoSequence = 1ULL << 62;

struct Names {
  PyObject* sequence_nr;
  PyObject* variable;
};
Names names;

enum Kind : uintptr_t { kForward, kCaused, kAccumulates, kUncaused };

uintptr_t word(const void* object) { return reinterpret_cast<uintptr_t>(object); }

size_t hash_of(const SiteKey& key) {
  size_t hash = 1469598103934665603ULL;
  for (uintptr_t each : key) hash = (hash ^ each) * 1099511628211ULL ^ hash >> 29;
  return hash;
}

bool has_key(const CallSite& site, const SiteKey& key) {
  return site.key.size() == key.size() &&
         std::memcmp(site.key.data(), key.data(), key.size() * sizeof(uintptr_t)) == 0;
}

// Whether an op writes to its arguments: 1, 0, or -1 with an error set.
int does_write(Matcher* self, PyObject* func) {
  auto known = self->writing_ops.find(func);
  if (known != self->writing_ops.end()) return known->second.second;
  const int writes = sonde_tensor::truth_from(
      Owned::take(PyObject_CallOneArg(self->op_writes.get(), func)));
  if (writes >= 0) self->writing_ops.emplace(func, std::make_pair(Owned::share(func), writes));
  return writes;
}

// How the tensors are spread over the arguments: this decides which slots an op writes to.
void add_signature(Matcher* self, PyObject* args, PyObject* kwargs, SiteKey* key) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    key->push_back(count_tensors(self, PyTuple_GET_ITEM(args, i)));
  if (!kwargs) return;
  PyObject *name, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(kwargs, &position, &name, &value)) {
    key->push_back(static_cast<uintptr_t>(PyObject_Hash(name)));
    key->push_back(count_tensors(self, value));
  }
}

// Whether the file of a code object counts as the user's.
bool is_user_code(Matcher* self, PyObject* code) {
  auto known = self->user_codes.find(code);
  if (known != self->user_codes.end()) return known->second.second;
  const int answer =
      sonde_tensor::truth_from(Owned::take(PyObject_CallOneArg(self->is_user_code.get(), code)));
  if (answer < 0) PyErr_Clear();
  if (self->user_codes.size() >= kMostCodes) self->user_codes.clear();
  self->user_codes.emplace(code, std::make_pair(Owned::share(code), answer > 0));
  return answer > 0;
}

// Adds the code and instruction of each frame, from the innermost outwards. With `stops_at_engine`
// none where autograd's engine itself calls the op. Code that the engine calls (hooks, custom
// functions, checkpoints) has the line of `backward` among its own, so all frames count. Beyond the innermost frame of the user's code, those
// that a function calls again by recursion count once, as in `stack_of` of source_lines.py: so a
// recursive function has the same call sites at every depth.
void add_frames(Matcher* self, bool stops_at_engine, SiteKey* key) {
  const size_t before = key->size();
  size_t first = 0;   // of the frames of which each counts once; 0: not there yet
  uint64_t seen = 0;  // bits of their hashes
  visit_frames([&](const Frame& frame) {
    if (stops_at_engine && key->size() == before && frame.code == self->engine_code.get())
      return false;
    const auto last = static_cast<uintptr_t>(frame.last);
    if (first) {
      const uint64_t bit = uint64_t{1} << (((word(frame.code) >> 4) ^ last * 7) & 63);
      if (seen & bit)
        for (size_t i = first; i < key->size(); i += 2)
          if ((*key)[i] == word(frame.code) && (*key)[i + 1] == last) return true;
      seen |= bit;
    }
    if (!first && is_user_code(self, frame.code)) {
      first = key->size();
      seen |= uint64_t{1} << (((word(frame.code) >> 4) ^ last * 7) & 63);
    }
    key->push_back(word(frame.code));
    key->push_back(last);
    return true;
  });
}

// In backward: the forward op that caused the op, or the tensor whose gradient is accumulated.
bool add_cause(Matcher* self, PyObject* autograd_node, Place* place) {
  // A node that accumulates a gradient has the largest possible number.
  const Owned asked = sonde_tensor::call_method(autograd_node, names.sequence_nr);
  const unsigned long long number =
      asked && PyLong_Check(asked.get()) ? PyLong_AsUnsignedLongLong(asked.get()) : kNoSequence;
  PyErr_Clear();
  SiteKey& key = place->key;
  if (number < kNoSequence) {
    auto found = self->sequence.find(static_cast<long long>(number) + 1);
    if (found != self->sequence.end()) {
      place->cause = found->second;
      if (!place->cause.site()) return false;
      key.push_back(kCaused);
      key.push_back(word(place->cause.site()));
      add_frames(self, true, &key);
      return true;
    }
  }
  const Owned variable = sonde_tensor::attribute(autograd_node, names.variable);
  PyErr_Clear();
  if (!variable || variable.get() == Py_None) {
    key.push_back(kUncaused);
    add_frames(self, false, &key);
    return true;
  }
  uintptr_t storage;
  if (!sonde_tensor::storage_key(variable.get(), &storage)) {
    PyErr_Clear();
    return false;
  }
  auto leaf = self->leaf_refs.find(storage);
  if (leaf == self->leaf_refs.end()) return false;
  key.push_back(kAccumulates);
  key.push_back(word(leaf->second));
  add_frames(self, false, &key);
  return true;
}

bool read_slots(const Owned& tuple, std::vector<Py_ssize_t>* slots) {
  if (!tuple || !PyTuple_Check(tuple.get())) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i)
    slots->push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple.get(), i)));
  return !PyErr_Occurred();
}

Owned field(const Owned& object, const char* name) {
  return Owned::take(PyObject_GetAttrString(object.get(), name));
}

// Keeps the code objects of the running frames alive with the site.
void keep_frames(CallSite* site) {
  visit_frames([&](const Frame& frame) {
    site->key_objects.push_back(Owned::share(frame.code));
    return true;
  });
}

}  // namespace

bool find_place(Matcher* self, PyObject* func, PyObject* args, PyObject* kwargs, Place* place) {
  SiteKey& key = place->key;
  key.push_back(word(func));
  key.push_back(word(self->scope.get()));
  key.push_back(static_cast<uintptr_t>(PyTuple_GET_SIZE(args)));
  const int writes = does_write(self, func);
  if (writes < 0) return false;
  if (writes) add_signature(self, args, kwargs, &key);
  const Owned node = Owned::take(PyObject_CallNoArgs(self->autograd_node.get()));
  if (!node) return false;
  if (node.get() != Py_None) {
    self->has_backward = 1;
    return add_cause(self, node.get(), place);
  }
  key.push_back(kForward);
  add_frames(self, false, &key);
  return true;
}

CallSite* find_site(Matcher* self, const Place& place) {
  const auto [first, end] = self->sites.equal_range(hash_of(place.key));
  for (auto each = first; each != end; ++each)
    if (has_key(*each->second, place.key)) return each->second.get();
  return nullptr;
}

bool add_site(Matcher* self, const Place& place) {
  Node* node = self->at.get();
  CallSite* known = find_site(self, place);
  const Owned description = Owned::take(PyObject_CallFunctionObjArgs(
      self->describe_site.get(), node->record.get(),
      known ? known->description.get() : Py_None, nullptr));
  if (!description) return false;
  if (description.get() == Py_None) return true;
  if (known) {
    node->site = known;
    return true;
  }
  if (self->sites.size() >= kMostSites) return true;
  auto site = std::make_unique<CallSite>();
  site->key.assign(place.key.begin(), place.key.end());
  site->func = Owned::share(node->func.get());
  site->op = Owned::share(node->op.get());
  site->scope = Owned::share(node->scope.get());
  site->code = Owned::share(node->code.get());
  site->depth = node->depth;
  site->last = node->last;
  site->group = node->group;
  site->round = self->round;
  const Owned fills = field(description, "fills"), rearranges = field(description, "rearranges");
  if (!fills || !rearranges || !read_slots(field(description, "writes"), &site->writes) ||
      !read_slots(field(description, "workspaces"), &site->workspaces))
    return false;
  site->fills = fills.get() == Py_True;
  site->rearranges = rearranges.get() == Py_True;
  site->key_objects.push_back(Owned::share(self->scope.get()));
  keep_frames(site.get());
  site->description = Owned::share(description.get());
  node->site = site.get();
  self->sites.emplace(hash_of(place.key), std::move(site));
  return true;
}

bool make_site_names() {
  names.sequence_nr = PyUnicode_InternFromString("_sequence_nr");
  names.variable = PyUnicode_InternFromString("variable");
  return names.sequence_nr && names.variable;
}

}  // namespace sonde_match
