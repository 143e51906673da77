// CUDA C prelude: words that are empty or plain here and carry an address space in OpenCL C.
#define GLOBAL                                    // pointer into device memory
#define SHARED                                    // pointer into the block's shared memory
#define CONSTANT                                  // pointer into constant memory
#define SHARED_MEMORY(type, name, count) \
    extern __shared__ float4 name##_bytes[];      \
    type *name = (type *)name##_bytes             // dynamic: may exceed 48 KB; 16-byte aligned
#define WEIGHTS_IN_CONSTANT(count) __constant__ float w_constant[count];   // filled with w before the launch
#define CONSTANT_WEIGHTS(w) w_constant
#define REQUIRE(condition, reason) static_assert(condition, reason)
#define PRAGMA(text) _Pragma(#text)
#define UNROLLED(n) PRAGMA(unroll n)              // unroll the next loop n times; 1 keeps it rolled
