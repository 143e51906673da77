// What kernels here use of OpenCL C's built-in words, in place of PoCL's header of 18,000 lines, which takes longer to
// read than most kernels to compile. Declared as there; a kernel that needs any other word is built with that header.
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
typedef uint cl_mem_fence_flags;
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2

#define POCL_VECTOR(type, n) typedef type type##n __attribute__((ext_vector_type(n)));
#define POCL_VECTORS(type) \
    POCL_VECTOR(type, 2) POCL_VECTOR(type, 3) POCL_VECTOR(type, 4) POCL_VECTOR(type, 8) POCL_VECTOR(type, 16)
POCL_VECTORS(float)
POCL_VECTORS(int)
POCL_VECTORS(uint)

#define POCL_WORD __attribute__((overloadable))
size_t POCL_WORD __attribute__((const)) get_local_id(uint);
size_t POCL_WORD __attribute__((const)) get_group_id(uint);
size_t POCL_WORD __attribute__((const)) get_global_id(uint);
size_t POCL_WORD __attribute__((const)) get_local_size(uint);
size_t POCL_WORD __attribute__((const)) get_num_groups(uint);
size_t POCL_WORD __attribute__((const)) get_global_size(uint);
void POCL_WORD __attribute__((convergent)) barrier(cl_mem_fence_flags);

#define POCL_LOAD(n, space) float##n POCL_WORD __attribute__((pure)) vload##n(size_t, const space float *);
#define POCL_STORE(n, space) void POCL_WORD vstore##n(float##n, size_t, space float *);
#define POCL_COPIES(n)                                                                                     \
    POCL_LOAD(n, __global) POCL_LOAD(n, __local) POCL_LOAD(n, __constant) POCL_LOAD(n, __private)          \
    POCL_STORE(n, __global) POCL_STORE(n, __local) POCL_STORE(n, __private)
POCL_COPIES(2)
POCL_COPIES(3)
POCL_COPIES(4)
POCL_COPIES(8)
POCL_COPIES(16)

// What the tuner's own kernels use beyond that.
#define INFINITY __builtin_inff()
#define as_uint(value) __builtin_astype((value), uint)
float POCL_WORD __attribute__((const)) fabs(float);
float POCL_WORD __attribute__((const)) fmax(float, float);
float POCL_WORD __attribute__((const)) fmin(float, float);
float POCL_WORD __attribute__((const)) tanh(float);
uint POCL_WORD atomic_add(volatile __global uint *, uint);
uint POCL_WORD atomic_min(volatile __global uint *, uint);
uint POCL_WORD atomic_max(volatile __global uint *, uint);
uint POCL_WORD atomic_xor(volatile __global uint *, uint);
