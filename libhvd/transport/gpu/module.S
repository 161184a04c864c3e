/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels as data: what nvcc has made is one symbol of the library, which cuModuleLoadData
 * takes. Assembled in the build's own folder.
 */
	.section .rodata
	.balign 16
	.global hvd_pack_module
	.hidden hvd_pack_module
	.type hvd_pack_module, %object
hvd_pack_module:
	.incbin "libhvd/transport/gpu/pack_kernels.fatbin"
	.size hvd_pack_module, . - hvd_pack_module
	.section .note.GNU-stack, "", %progbits
