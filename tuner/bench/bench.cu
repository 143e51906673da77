// The bench's own kernels: place inputs, poison and compare outputs, seal buffers with keyed sums. Those of ceilings.cu
// follow, then the plain and the exact reference, from the problem's own text. All walk their elements in one
// dimension: grid-stride, or with OWN_RUNS, on a CPU, each work-item its own run of neighbours, which the compiler turns
// into vectors. Keys are drawn anew by the host, so that nothing here can be foreseen.
#ifdef __OPENCL_VERSION__
#define atomicAdd(pointer, value) atomic_add(pointer, value)
#define atomicMin(pointer, value) atomic_min(pointer, value)
#define atomicMax(pointer, value) atomic_max(pointer, value)
#define BITS(value) as_uint(value)
#define FLOAT(bits) as_float(bits)
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define DOUBLES 1
#endif
#define make_float4(a, b, c, d) (float4)(a, b, c, d)
#else
#define BITS(value) __float_as_uint(value)
#define FLOAT(bits) __uint_as_float(bits)
#define DOUBLES 1
#define fabs(value) fabsf(value)
#define tanh(value) tanhf(value)
#define fmax(a, b) fmaxf(a, b)
typedef unsigned int uint;
typedef unsigned long ulong;
#endif

#define FIRST ((ulong)blockIdx.x * blockDim.x + threadIdx.x)
#define STRIDE ((ulong)gridDim.x * blockDim.x)
#ifdef OWN_RUNS
#define RUN(n) (((n) + STRIDE - 1) / STRIDE)
#define EACH(i, n) \
    for (ulong i = FIRST * RUN(n), i##_end = i + RUN(n) < (n) ? i + RUN(n) : (n); i < i##_end; i++)
#else
#define EACH(i, n) for (ulong i = FIRST; i < n; i += STRIDE)
#endif

// Planes of `size` neighbours, in chunks that a block (on a CPU: a work-item) walks; `plane` and `k` are declared here.
#define CHUNK 4096u
#define CHUNKS(planes, size) ((ulong)(planes) * (((size) + CHUNK - 1) / CHUNK))
#ifdef OWN_RUNS
#define EACH_IN_PLANES(plane, k, planes, size)                                                        \
    EACH(chunk, CHUNKS(planes, size))                                                                 \
        for (ulong plane = chunk / (((size) + CHUNK - 1) / CHUNK), once = 1; once; once = 0)          \
            for (uint k = chunk % (((size) + CHUNK - 1) / CHUNK) * CHUNK,                             \
                      k##_end = k + CHUNK < (size) ? k + CHUNK : (size); k < k##_end; k++)
#else
#define EACH_IN_PLANES(plane, k, planes, size)                                                        \
    for (ulong chunk = blockIdx.x; chunk < CHUNKS(planes, size); chunk += gridDim.x)                  \
        for (ulong plane = chunk / (((size) + CHUNK - 1) / CHUNK), once = 1; once; once = 0)          \
            for (uint k = chunk % (((size) + CHUNK - 1) / CHUNK) * CHUNK + threadIdx.x,               \
                      k##_end = chunk % (((size) + CHUNK - 1) / CHUNK) * CHUNK + CHUNK;               \
                 k < k##_end && k < (size); k += blockDim.x)
#endif

// Contents are turned: a stock's planes lie in groups, and group g of a launch is group (g + groups_on) of the stock,
// plane p of a group is plane (p + planes_on). Where a problem's planes would be single elements, its groups are planes
// instead, and element k of a launch is element (k + elements_on) of the stock's.
#ifdef ELEMENTS_TURN
#define FROM(k, elements_on, size) ((k) + (elements_on) < (size) ? (k) + (elements_on) : (k) + (elements_on) - (size))
#else
#define FROM(k, elements_on, size) (k)
#endif
#define TURNED(plane, k, size, per, groups, groups_on, planes_on, elements_on)                                \
    ((((plane) / (per) + (groups_on)) % (groups) * (per) + ((plane) % (per) + (planes_on)) % (per)) * (size) + \
     FROM(k, elements_on, size))

// Murmur3's finaliser (Appleby)
__device__ __forceinline__ uint mixed(uint h)
{
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}
#define HASH(i, key) mixed((uint)(i) * 0x9e3779b1u ^ (key))

// A word that no right result holds: a NaN of either kind, a huge number of either sign.
__device__ __forceinline__ uint poison_word(uint h)
{
    uint sign = h & 0x80000000u;
    if (h & 1) return sign | 0x70000000u | (h >> 4 & 0x00ffffffu);
    return (h & 2) ? sign | 0x7fc00000u | (h >> 4 & 0x003fffffu) : sign | 0x7f800001u | (h >> 4 & 0x003ffffeu);
}

// A guard zone's word: poison of all kinds, or of one, or a number from 0.5 to 1 of either sign.
#define NANS 1u
#define HUGE_NUMBERS 2u
#define NUMBERS 3u
__device__ __forceinline__ uint guard_word(ulong i, uint key, uint kind)
{
    uint h = HASH(i, key);
    if (kind == NUMBERS) return (h & 0x80000000u) | 0x3f000000u | (h >> 4 & 0x007fffffu);
    return poison_word(kind == NANS ? h & ~1u : kind == HUGE_NUMBERS ? h | 1u : h);
}

// What fills an element of y whose right value is known. MIXED: one in four is a number near that, its negative or a zero.
// LIKELY: each is near. ALIKE: each is `word`, as in memory that was just cleared.
#define MIXED 0u
#define LIKELY 1u
#define ALIKE 2u
__device__ __forceinline__ uint poison_for(uint h, float right, float tolerance, uint kind, uint word)
{
    if (kind == MIXED && (h & 12) != 12) return poison_word(h);
    float steps = (float)(3 + (h >> 4 & 31)), near = right + ((h & 0x80000000u) ? steps : -steps) * tolerance;
    float other = kind == ALIKE ? FLOAT(word) : (h & 16384) ? ((h & 32768) ? -right : 0.0f) : near;
    if (!(fabs(other - right) <= 2.0f * tolerance)) return BITS(other);
    return kind != MIXED && fabs(near - right) > 2.0f * tolerance ? BITS(near) : poison_word(h);
}

// words[0..n) = bits
__global__ void fill_words(GLOBAL uint *words, ulong n, uint bits)
{
    EACH(i, n) words[i] = bits;
}

// words[begin..end) = those of a guard zone
__global__ void fill_poison(GLOBAL uint *words, ulong begin, ulong end, uint key, uint kind)
{
    EACH(i, end - begin) words[begin + i] = guard_word(begin + i, key, kind);
}

// report[slot..slot + 3) = {words of [begin, end) that are not the guard zone's, index of the first, index of the last}
__global__ void check_poison(GLOBAL const uint *words, ulong begin, ulong end, uint key, uint kind, uint slot,
                             GLOBAL uint *report)
{
    uint strays = 0;
    EACH(i, end - begin) strays += words[begin + i] != guard_word(begin + i, key, kind);
    if (!strays) return;
    EACH(i, end - begin)
    {
        if (words[begin + i] == guard_word(begin + i, key, kind)) continue;
        atomicAdd(&report[slot], 1u);
        atomicMin(&report[slot + 1], (uint)i);
        atomicMax(&report[slot + 2], (uint)i);
    }
}

// y = poison; expected is masked with its own key
__global__ void poison_y(GLOBAL uint *y, GLOBAL const uint *expected, ulong planes, uint size, uint per, uint groups,
                         uint groups_on, uint planes_on, uint elements_on, float scale, float tolerance, uint mask, uint key,
                         uint kind, uint word)
{
    EACH_IN_PLANES(plane, k, planes, size)
    {
        ulong i = plane * size + k, from = TURNED(plane, k, size, per, groups, groups_on, planes_on, elements_on);
        y[i] = poison_for(HASH(i, key), FLOAT(expected[from] ^ HASH(from, mask)) * scale, tolerance, kind, word);
    }
}

// to = scale * from, turned
__global__ void place(GLOBAL float *to, GLOBAL const float *from, ulong planes, uint size, uint per, uint groups,
                      uint groups_on, uint planes_on, uint elements_on, float scale)
{
    EACH_IN_PLANES(plane, k, planes, size)
        to[plane * size + k] = from[TURNED(plane, k, size, per, groups, groups_on, planes_on, elements_on)] * scale;
}

// report[slot] = words that are not as `place` left them
__global__ void check_placed(GLOBAL const float *to, GLOBAL const float *from, ulong planes, uint size, uint per,
                             uint groups, uint groups_on, uint planes_on, uint elements_on, float scale, uint slot, GLOBAL uint *report)
{
    uint changed = 0;
    EACH_IN_PLANES(plane, k, planes, size)
    {
        float right = from[TURNED(plane, k, size, per, groups, groups_on, planes_on, elements_on)] * scale;
        changed += BITS(to[plane * size + k]) != BITS(right);
    }
    if (changed) atomicAdd(&report[slot], changed);
}

// out[0..n) = in[0..n), masked or unmasked
__global__ void mask_words(GLOBAL const uint *in, GLOBAL uint *out, ulong n, uint key)
{
    EACH(i, n) out[i] = in[i] ^ HASH(i, key);
}

// report[slot] and report[slot + 1] += keyed sums over index and word: a change of any words changes them, but for one
// chance in 2^64
__global__ void seal(GLOBAL const uint *words, ulong n, uint key, uint slot, GLOBAL uint *report)
{
    uint first = 0, second = 0;
    EACH(i, n)
    {
        uint h = HASH(i, key);
        first += mixed(words[i] ^ h);
        second += mixed(words[i] + h * 0x9e3779b1u);
    }
    atomicAdd(&report[slot], first);
    atomicAdd(&report[slot + 1], second);
}

// out[0..n) = numbers of magnitudes 2^-4 to 1 of both signs: most of full precision, one in eight of few digits, so that
// sums are ties when rounded, one in sixteen a zero, of either sign
__global__ void fill_magnitudes(GLOBAL float *out, ulong n, uint key)
{
    EACH(i, n)
    {
        uint h = HASH(i, key), kind = mixed(h + key), sign = kind & 0x80000000u;
        uint digits = (kind & 7) == 1 ? h & 0x00700000u : h & 0x007fffffu;
        out[i] = FLOAT((kind & 15) == 0 ? sign : sign | (123u + (h >> 23 & 3)) << 23 | digits);
    }
}

// Words of shared memory and registers that a later kernel may find: a NaN or a huge number. The host says how many.
#ifndef SCOUR_WORDS
#define SCOUR_WORDS 1024
#define SCOUR_REGISTERS 64
#endif
__global__ void scour(GLOBAL float *out, uint words, uint bits)
{
    SHARED_MEMORY(float, shared, SCOUR_WORDS);
    float own[SCOUR_REGISTERS];
    for (uint i = threadIdx.x; i < words; i += blockDim.x) shared[i] = FLOAT(bits);
    UNROLLED(SCOUR_REGISTERS)
    for (int i = 0; i < SCOUR_REGISTERS; i++) own[i] = FLOAT(bits + i);
    __syncthreads();
    if (bits == 0) {  // never: but the compiler cannot know
        float sum = shared[(threadIdx.x + 1) % words];
        UNROLLED(SCOUR_REGISTERS)
        for (int i = 0; i < SCOUR_REGISTERS; i++) sum = sum * own[i] + shared[i];
        out[FIRST] = sum;
    }
}

// report[0..4) = {wrong elements, index of the first, bits of the largest error, elements that are NaN or still poison}
__global__ void compare(GLOBAL const uint *y, GLOBAL const uint *expected, ulong planes, uint size, uint per, uint groups,
                        uint groups_on, uint planes_on, uint elements_on, float scale, float tolerance, uint mask, uint key,
                        uint kind, uint word, GLOBAL uint *report)
{
    uint wrong = 0, first = 0xffffffffu, unwritten = 0;
    float largest = 0.0f;
    EACH_IN_PLANES(plane, k, planes, size)
    {
        ulong i = plane * size + k, from = TURNED(plane, k, size, per, groups, groups_on, planes_on, elements_on);
        float error = fabs(FLOAT(y[i]) - FLOAT(expected[from] ^ HASH(from, mask)) * scale);
        wrong += !(error <= tolerance);
        largest = error > largest ? error : largest;
    }
    if (BITS(largest) > report[2]) atomicMax(&report[2], BITS(largest));
    if (!wrong) return;
    EACH_IN_PLANES(plane, k, planes, size)
    {
        ulong i = plane * size + k, from = TURNED(plane, k, size, per, groups, groups_on, planes_on, elements_on);
        float right = FLOAT(expected[from] ^ HASH(from, mask)) * scale, error = fabs(FLOAT(y[i]) - right);
        if (error <= tolerance) continue;
        if ((uint)i < first) first = (uint)i;
        uint left = poison_for(HASH(i, key), right, tolerance, kind, word);  // MIXED: a kernel may err like a near miss
        unwritten += error != error || (y[i] == left && (kind != MIXED || left == poison_word(HASH(i, key))));
    }
    atomicAdd(&report[0], wrong);
    atomicMin(&report[1], first);
    atomicAdd(&report[3], unwritten);
}

// report[2] = bits of the largest |a - b|
__global__ void difference(GLOBAL const float *a, GLOBAL const float *b, ulong n, GLOBAL uint *report)
{
    float found = 0.0f;
    EACH(i, n)
    {
        float error = fabs(a[i] - b[i]);
        found = error > found ? error : found;
    }
    atomicMax(&report[2], BITS(found));
}

// report[2] = bits of the largest |value|
__global__ void largest(GLOBAL const float *values, ulong n, GLOBAL uint *report)
{
    float found = 0.0f;
    EACH(i, n) found = fmax(found, fabs(values[i]));
    atomicMax(&report[2], BITS(found));
}
